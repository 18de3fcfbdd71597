//! The relative links of the Markdown pages.

use crate::architecture::{packages, root};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Returns the Markdown files in this folder.
pub(crate) fn markdown_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // Each crate links to the changelog of the workspace.
    entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "md") && !path.is_symlink())
        .collect()
}

/// Returns the lines of a page that are no code block.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Returns a line without its inline code.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// Returns the relative links of a page.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text).map(without_code) {
        for after in line.split("](").skip(1) {
            let target = after.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// Returns the anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> Vec<String> {
    let mut seen = HashMap::new();
    let headings = prose(text)
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let anchor = |heading: &str| {
        let kept = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>();
        let anchor = kept.replace(' ', "-");
        let count = seen.entry(anchor.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    };
    headings.map(anchor).collect()
}

/// Returns why a link of this page leads nowhere.
fn broken(page: &Path, text: &str, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    if !target.exists() {
        return Some(format!("{}: `{link}`: there is no such file", page.display()));
    }
    let anchor = anchor?;
    let known =
        if file.is_empty() { anchors(text) } else { anchors(&std::fs::read_to_string(&target).unwrap()) };
    let unknown = !known.iter().any(|known| known == anchor);
    unknown.then(|| format!("{}: `{link}`: no such heading among {known:?}", page.display()))
}

#[test]
fn relative_links_lead_to_files_and_headings() {
    let crates = packages(&["crates"]);
    let folders = [root(), root().join("docs"), root().join("verify")].into_iter().chain(crates);
    let pages: Vec<_> = folders.flat_map(|folder| markdown_in(&folder)).collect();
    let mut checked = 0;
    let mut found = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        let links = links(&text);
        checked += links.len();
        found.extend(links.iter().filter_map(|link| broken(page, &text, link)));
    }
    assert!(pages.len() >= 15 && checked > 100, "{} pages, {checked} links", pages.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// mdBook turns each link to a Markdown file into one to its own page, which only pages of the book have.
#[test]
fn book_pages_link_only_to_markdown_in_the_book() {
    for page in markdown_in(&root().join("docs")) {
        for link in links(&std::fs::read_to_string(&page).unwrap()) {
            let outside =
                link.starts_with("..") && link.split('#').next().unwrap_or_default().ends_with(".md");
            assert!(!outside, "{}: `{link}`: link to its folder", page.display());
        }
    }
}

/// Each page can be reached from the table of contents, and each entry of it is a page.
#[test]
fn the_book_lists_all_pages() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut listed = links(&summary);
    listed.sort();
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut pages: Vec<_> =
        markdown_in(&docs).into_iter().map(name).filter(|name| name != "SUMMARY.md").collect();
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn broken_links_are_found() {
    let text = "# The page\n\n[a](other.md#x) and `[code](gone.md)` [b](#the-page)\n```\n[c](gone.md)\n```\n## The page\n[w](https://x)";
    assert_eq!(links(text), ["other.md#x", "#the-page"]);
    assert_eq!(anchors(text), ["the-page", "the-page-1"]);
    assert_eq!(anchors("## From `SET NX` to a lock: 1. Holes"), ["from-set-nx-to-a-lock-1-holes"]);
    let page = root().join("README.md");
    assert_eq!(broken(&page, text, "#the-page-1"), None);
    assert_eq!(broken(&page, text, "docs/start.md#as-a-layer"), None);
    for link in ["#no-heading", "no-file.md", "docs/start.md#no-heading"] {
        assert!(broken(&page, text, link).is_some(), "{link}");
    }
}
