//! The public API of each crate as text: `crates/<crate>/api.txt`, generated from rustdoc's JSON.
//!
//! | module | contains |
//! | --- | --- |
//! | [`rustdoc`] | the JSON of all crates, if the toolchain writes the supported version |
//!
//! A text is sorted lines, one per item; this file compares two of them and counts their names.

pub mod rustdoc;

use public_api::Builder;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Returns the folder of the workspace.
///
/// # Panics
/// Never: this crate is two folders below the workspace.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a checker is in `verify/<folder>`")
}

/// Returns the folders of the published crates, sorted by name: all of `crates/` except the shop.
///
/// # Panics
/// If `crates/` cannot be read.
#[must_use]
pub fn crates() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(workspace().join("crates")).expect("a `crates` folder");
    let mut folders: Vec<_> = folders.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join("src/lib.rs").exists() && !folder.ends_with("lock-inventory-demo"));
    folders.sort();
    folders
}

/// Reads the public API from a file of rustdoc's JSON. Hidden items, blanket implementations and auto traits are
/// omitted: tests of each crate assert `Send` and `Sync` where they are promised.
///
/// # Errors
/// If the file has another format version than the supported one.
pub fn of_json(json: &Path) -> Result<String, String> {
    let api = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .include_function_parameter_names(true)
        .sorted(true)
        .build()
        .map_err(|error| format!("{}: {error}", json.display()))?;
    Ok(api.to_string())
}

/// Returns the lines that are in only one of the texts, prefixed with `-` for `old` and `+` for `new`. It is empty if
/// the texts are equal.
#[must_use]
pub fn difference(old: &str, new: &str) -> String {
    let (before, after): (BTreeSet<_>, BTreeSet<_>) = (old.lines().collect(), new.lines().collect());
    let mut changed: Vec<_> = before.symmetric_difference(&after).collect();
    changed.sort();
    let signed =
        changed.into_iter().map(|line| if before.contains(line) { ('-', line) } else { ('+', line) });
    signed.map(|(sign, line)| format!("{sign} {line}\n")).collect()
}

/// The number of names in a text: types, traits, functions, constants and macros. Modules and members of types do not
/// count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// The names at the root of the crate.
    pub root: usize,
    /// The names at the root and in public modules.
    pub reachable: usize,
}

impl Names {
    /// Counts the names of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let names: BTreeSet<_> = text.lines().filter_map(name).collect();
        let root = names.iter().filter(|name| name.matches("::").count() == 1).count();
        Self { root, reachable: names.len() }
    }
}

/// Returns the path of an item that counts.
fn name(line: &str) -> Option<&str> {
    const KINDS: [&str; 12] = [
        "struct", "enum", "trait", "fn", "type", "const", "static", "macro", "proc", "use", "union", "async",
    ];
    // Attributes precede it, as in `#[non_exhaustive] pub enum`.
    let item = line.split_once("pub ")?.1;
    let mut words = item.split(' ');
    if !KINDS.contains(&words.next()?) {
        return None;
    }
    let path = words.find(|word| word.contains("::"))?;
    let path = path.split(['<', '(', '{', ';', '!']).next()?.trim_end_matches(':');
    let (parent, _) = path.rsplit_once("::")?;
    // Skip members: the last segment of their parent's path is the name of a type.
    let parent = parent.rsplit("::").next()?;
    (!parent.starts_with(char::is_uppercase)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
pub mod locks
pub mod locks::inspect
#[non_exhaustive] pub enum locks::Kind
pub locks::Kind::Busy
pub struct locks::Guard<'a>
pub locks::Guard::name: alloc::string::String
impl<'a> locks::Guard<'a>
pub async fn locks::Guard<'a>::release(self) -> core::result::Result<(), locks::Error>
pub const fn locks::inspect::depth() -> usize
pub const locks::Guard::MOST: usize
pub macro locks::conformance!
impl core::fmt::Debug for locks::Kind
pub fn locks::Kind::fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result
pub type locks::Guard<'a>::Target = locks::Kind
";

    #[test]
    fn members_do_not_count_as_names() {
        assert_eq!(Names::of(TEXT), Names { root: 3, reachable: 4 });
    }

    #[test]
    fn difference_lists_removed_and_added_lines() {
        let other = TEXT.replace("pub locks::Kind::Busy\n", "pub locks::Kind::Held\n");
        assert_eq!(difference(TEXT, TEXT), "");
        assert_eq!(difference(TEXT, &other), "- pub locks::Kind::Busy\n+ pub locks::Kind::Held\n");
    }
}
