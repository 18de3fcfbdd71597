//! Copies the sources of lock-core, plants bugs into the copy, and decides how it is compiled here: under the explorer, and
//! with its hooks for simulations.

#[path = "patches/mod.rs"]
mod patches;

use patches::{PATCHES, Patch};
use std::{
    env,
    fs::{self, create_dir_all},
    path::{Path, PathBuf},
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=patches");
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rustc-cfg=feature=\"unstable-model\"");
    println!(
        "cargo::rustc-check-cfg=cfg(feature, values(\"unstable-model\", \"otel\", \"cancellation-token\"))"
    );
    let sources = Path::new("../../crates/lock-core/src");
    println!("cargo::rerun-if-changed={}", sources.display());
    let copy = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("lock-core");
    let _ = fs::remove_dir_all(&copy);
    copy_sources(sources, &copy);
    PATCHES.iter().for_each(|patch| apply(&copy, patch));
}

fn copy_sources(from: &Path, to: &Path) {
    create_dir_all(to).expect("the build directory can be written to");
    for entry in fs::read_dir(from).expect("lock-core lies in crates/") {
        let path = entry.expect("it can be read").path();
        let place = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy_sources(&path, &place);
            continue;
        }
        let text = fs::read_to_string(&path).expect("sources are text");
        // What is included cannot have attributes and docs of the whole crate.
        let is_inner = |line: &&str| line.starts_with("//!") || line.starts_with("#![");
        let is_root = place.ends_with("lock-core/lib.rs");
        let lines = text.lines().filter(|line| !(is_root && is_inner(line)));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        fs::write(&place, text).expect("the build directory can be written to");
    }
}

fn apply(copy: &Path, patch: &Patch) {
    let path = copy.join(patch.file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", patch.file));
    let found = text.matches(patch.from).count();
    assert_eq!(
        found, 1,
        "the place of a planted bug stands {found} times in {}:\n{}",
        patch.file, patch.from
    );
    fs::write(&path, text.replace(patch.from, patch.to)).expect("the build directory can be written to");
}
