//! Records the compiler version for the report.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let compiler = env::var_os("RUSTC").expect("cargo sets RUSTC for build scripts");
    let answer = Command::new(compiler).arg("--version").output().expect("runnable compiler");
    println!("cargo:rustc-env=LOCK_BENCH_RUSTC={}", String::from_utf8_lossy(&answer.stdout).trim());
}
