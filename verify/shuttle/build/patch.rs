//! Patches in the form of unified diffs without line numbers. The replaced lines must occur exactly once in the file.

use std::{fs, path::Path};

/// Applies a patch to the files below `root`.
///
/// Lines before the first `--- FILE` describe the patch. Each `@@` starts a change with context lines (` `), removed
/// lines (`-`) and added lines (`+`).
///
/// # Panics
/// If the context and removed lines do not occur exactly once in the file: the patch must be adapted to the sources.
pub(crate) fn apply(patch: &Path, root: &Path) {
    let text = fs::read_to_string(patch).expect("UTF-8 patch");
    let (_, files) =
        text.split_once("\n--- ").unwrap_or_else(|| panic!("{} changes nothing", patch.display()));
    for file in files.split("\n--- ") {
        let (name, changes) = file.split_once('\n').unwrap_or((file, ""));
        let path = root.join(name);
        let mut source =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {name}: {error}", patch.display()));
        for change in changes.split("@@\n").skip(1) {
            let (before, after) = (side(change, '-'), side(change, '+'));
            let found = source.matches(&before).count();
            assert_eq!(
                found,
                1,
                "{} does not apply: its context occurs {found} times in {name}:\n{before}",
                patch.display()
            );
            source = source.replace(&before, &after);
        }
        fs::write(&path, source).expect("writable build directory");
    }
}

/// Returns the lines of one side of a change, including its context.
fn side(change: &str, sign: char) -> String {
    let lines = change.lines().filter_map(|line| line.strip_prefix(' ').or_else(|| line.strip_prefix(sign)));
    lines.flat_map(|line| [line, "\n"]).collect()
}
