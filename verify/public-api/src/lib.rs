//! The public API of each crate as a text: `crates/<crate>/api.txt`, made from rustdoc's JSON.
//!
//! | module | has |
//! | --- | --- |
//! | [`rustdoc`] | the JSON of all crates, where the toolchain writes the version that is read here |
//! | [`text`] | the text of a crate, its difference from another, and how many names it has |

pub mod rustdoc;
pub mod text;

use std::path::{Path, PathBuf};

/// The folder of the workspace.
///
/// # Panics
/// Never: this crate is two folders below it.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a checker is in `verify/<folder>`")
}

/// The folders of the crates that people depend on: all of `crates/` but the demo, in the order of their names.
///
/// # Panics
/// If `crates/` cannot be read.
#[must_use]
pub fn crates() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(workspace().join("crates")).expect("there is a folder of crates");
    let mut folders: Vec<_> = folders.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join("src/lib.rs").exists() && !folder.ends_with("lock-inventory-demo"));
    folders.sort();
    folders
}
