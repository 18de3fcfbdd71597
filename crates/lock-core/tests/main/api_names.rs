//! The names of the API in the Markdown pages: each `Type::method` and `module::function` exists.

use crate::{
    architecture::{packages, root},
    links::{markdown_in, prose},
};
use std::{collections::HashSet, fs};

/// The first parts of names that belong to other libraries: `redis` is redis-rs, and `LockManager` is rslock's.
const FOREIGN: [&str; 8] = ["Duration", "LockManager", "Router", "Uuid", "redis", "rustls", "std", "tokio"];

/// The public names of the workspace, from the `api.txt` of each crate.
struct Api {
    /// The path of each item, such as `lock_core::LockFactory::named`.
    paths: HashSet<String>,
    /// The modules of the facade, each of which is a crate.
    modules: HashSet<String>,
}

impl Api {
    fn read() -> Self {
        let mut api = Self { paths: HashSet::new(), modules: HashSet::new() };
        for folder in packages(&["crates"]) {
            let Ok(text) = fs::read_to_string(folder.join("api.txt")) else { continue };
            for line in text.lines() {
                if let Some(module) = line.strip_prefix("pub use distlock::") {
                    api.modules.insert(module.to_owned());
                }
                api.paths.extend(item(line));
            }
        }
        api
    }

    fn resolves(&self, name: &str) -> bool {
        let (first, rest) = name.split_once("::").unwrap_or((name, ""));
        if first == "distlock" {
            // The facade re-exports the roots of the other crates, at its own root or in a module.
            let rest = match rest.split_once("::") {
                Some((module, rest)) if self.modules.contains(module) => rest,
                _ => rest,
            };
            let of_a_root = |path: &String| path.split_once("::").is_some_and(|(_, of_root)| of_root == rest);
            return self.modules.contains(rest) || self.paths.iter().any(of_a_root);
        }
        let end = format!("::{name}");
        FOREIGN.contains(&first) || self.paths.iter().any(|path| path == name || path.ends_with(&end))
    }
}

/// Returns the path of the item that a line of `api.txt` declares, without its generics and its type.
fn item(line: &str) -> Option<String> {
    let declaration = line.split_once("pub ")?.1;
    let mut depth = 0;
    let mut path = String::new();
    for c in declaration.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' | '=' if depth == 0 => break,
            _ if depth == 0 => path.push(c),
            _ => {}
        }
    }
    let path = path.split_whitespace().find(|word| word.contains("::"))?;
    Some(path.trim_end_matches(':').to_owned())
}

/// Returns the names with at least two parts in the inline code of a page.
fn names(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        for code in line.split('`').skip(1).step_by(2) {
            let words = code.split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)));
            let names = words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::"));
            found.extend(names.map(str::to_owned));
        }
    }
    found
}

#[test]
fn names_in_the_pages_are_public() {
    let api = Api::read();
    let folders = [root(), root().join("docs")].into_iter().chain(packages(&["crates"]));
    let pages = folders.flat_map(|folder| markdown_in(&folder)).filter(|page| {
        // The other pages at the root are for contributors, and name internals.
        page.ends_with("README.md") || page.parent() == Some(&root().join("docs"))
    });
    let (mut checked, mut unknown) = (0, Vec::new());
    for page in pages {
        for name in names(&fs::read_to_string(&page).unwrap()) {
            checked += 1;
            if !api.resolves(&name) {
                unknown.push(format!("{}: `{name}`", page.display()));
            }
        }
    }
    assert!(checked > 80, "{checked} names");
    assert!(unknown.is_empty(), "no api.txt has these names:\n{}", unknown.join("\n"));
}

#[test]
fn unknown_names_are_found() {
    let text = "`LockLayer::shadow`, `a b::c(…)`, `connect`\n```\nx::y\n```\n`d::e` f::g";
    assert_eq!(names(text), ["LockLayer::shadow", "b::c", "d::e"]);
    assert_eq!(item("pub fn a::B<c::D>::e<F: g::H>(self) -> i::J").unwrap(), "a::B::e");
    assert_eq!(item("pub a::B::c: d::E").unwrap(), "a::B::c");
    assert_eq!(item("impl a::B for c::D"), None);
    let api = Api::read();
    let known =
        ["LockFactory::named", "lock_core::LockFactory", "distlock::connect", "distlock::cron::Scheduler"];
    for known in known {
        assert!(api.resolves(known), "{known}");
    }
    for unknown in ["RedisBackend::from_client", "LockFactory::nmaed", "distlock::conect"] {
        assert!(!api.resolves(unknown), "{unknown}");
    }
}
