//! Copies the sources of lock-core and applies the patches in `patches/` to the copy: the schedule explorer's
//! replacements for runtime and time, and planted bugs, each behind a switch.

#[path = "build/patch.rs"]
mod patch;

use std::{
    env,
    fs::{self, create_dir_all},
    path::{Path, PathBuf},
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=patches");
    println!("cargo::rustc-cfg=feature=\"__internal\"");
    println!("cargo::rustc-cfg=feature=\"test-util\"");
    println!(
        "cargo::rustc-check-cfg=cfg(feature, values(\"__internal\", \"__card-json\", \"__stored\", \"test-util\", \"otel\", \"macros\", \"signal\", \"cancellation-token\"))"
    );
    let sources = Path::new("../../crates/lock-core/src");
    println!("cargo::rerun-if-changed={}", sources.display());
    let copy = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("lock-core");
    let _ = fs::remove_dir_all(&copy);
    copy_sources(sources, &copy);
    let mut patches: Vec<_> = fs::read_dir("patches")
        .expect("readable directory")
        .map(|entry| entry.expect("readable directory").path())
        .collect();
    patches.sort();
    patches.iter().for_each(|file| patch::apply(file, &copy));
}

fn copy_sources(from: &Path, to: &Path) {
    create_dir_all(to).expect("writable build directory");
    for entry in fs::read_dir(from).expect("readable directory") {
        let path = entry.expect("readable directory").path();
        let place = to.join(path.file_name().expect("a source file has a name"));
        if path.is_dir() {
            copy_sources(&path, &place);
            continue;
        }
        let text = fs::read_to_string(&path).expect("UTF-8 source");
        // Included code cannot have inner attributes or crate-level docs.
        let is_inner = |line: &&str| line.starts_with("//!") || line.starts_with("#![");
        let is_root = place.ends_with("lock-core/lib.rs");
        let lines = text.lines().filter(|line| !(is_root && is_inner(line)));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        fs::write(&place, text).expect("writable build directory");
    }
}
