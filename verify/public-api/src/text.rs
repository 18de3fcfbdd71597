//! A public API as sorted lines, one for each item.

use public_api::Builder;
use std::{collections::BTreeSet, path::Path};

/// The public API that a file of rustdoc's JSON has. Hidden items are not in the JSON. Blanket implementations and
/// automatic traits are left out: tests of each crate assert `Send` and `Sync` where they are promised.
///
/// # Errors
/// If the file is not of the version of the format that is read here.
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

/// The lines that are in one of the two texts only, `-` before those of `old` and `+` before those of `new`; empty if there
/// is none.
#[must_use]
pub fn difference(old: &str, new: &str) -> String {
    let (before, after): (BTreeSet<_>, BTreeSet<_>) = (old.lines().collect(), new.lines().collect());
    let mut changed: Vec<_> = before.symmetric_difference(&after).collect();
    changed.sort();
    let signed =
        changed.into_iter().map(|line| if before.contains(line) { ('-', line) } else { ('+', line) });
    signed.map(|(sign, line)| format!("{sign} {line}\n")).collect()
}

/// How many names a text has: types, traits, functions, constants and macros. Modules and members of types are not
/// counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Those at the root of the crate.
    pub root: usize,
    /// Those at the root and in public modules.
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

/// The path of an item that is counted.
fn name(line: &str) -> Option<&str> {
    const KINDS: [&str; 12] = [
        "struct", "enum", "trait", "fn", "type", "const", "static", "macro", "proc", "use", "union", "async",
    ];
    // Attributes come before, as `#[non_exhaustive] pub enum`.
    let item = line.split_once("pub ")?.1;
    let mut words = item.split(' ');
    if !KINDS.contains(&words.next()?) {
        return None;
    }
    let path = words.find(|word| word.contains("::"))?;
    let path = path.split(['<', '(', '{', ';', '!']).next()?.trim_end_matches(':');
    let (parent, _) = path.rsplit_once("::")?;
    // Members: the last word of their parent is that of a type.
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
    fn names_are_counted_and_members_are_not() {
        assert_eq!(Names::of(TEXT), Names { root: 3, reachable: 4 });
    }

    #[test]
    fn a_difference_shows_what_went_and_what_came() {
        let other = TEXT.replace("pub locks::Kind::Busy\n", "pub locks::Kind::Held\n");
        assert_eq!(difference(TEXT, TEXT), "");
        assert_eq!(difference(TEXT, &other), "- pub locks::Kind::Busy\n+ pub locks::Kind::Held\n");
    }
}
