//! The public API of each crate as text: `crates/<crate>/api.txt`, generated from rustdoc's JSON.
//!
//! | module | contains |
//! | --- | --- |
//! | [`rustdoc`] | the JSON of all crates, if the toolchain writes the supported version |
//! | [`text`] | the text of a crate, its difference from another text, and its number of names |

pub mod rustdoc;
pub mod text;

use std::path::{Path, PathBuf};

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
