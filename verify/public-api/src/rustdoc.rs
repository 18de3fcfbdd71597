//! Rustdoc's JSON. Its format is unstable: it has a version, and a stable toolchain writes it only when
//! `RUSTC_BOOTSTRAP` is set.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The version of the format that `public-api` reads, in the version that the workspace names. Rust 1.95 writes it.
pub const FORMAT_VERSION: u64 = 57;

/// The arguments that make rustdoc write JSON.
const AS_JSON: [&str; 4] = ["-Z", "unstable-options", "--output-format", "json"];

/// The variable by which the wrapper learns which rustdoc it wraps.
const WRAPPED: &str = "LOCK_RUSTDOC";

/// There is no JSON.
#[derive(Debug, Clone)]
pub enum NoJson {
    /// This toolchain writes none, or another version of it.
    OtherToolchain(String),
    /// The documentation does not build.
    Failed(String),
}

/// Writes the JSON of all libraries of the workspace, and returns its folder. `wrapper` is a program that calls
/// [`wrapped`].
///
/// It selects packages and features as the steps of `scripts/test` do, so that no dependency is checked twice. The
/// variable `RUSTC_BOOTSTRAP` is set for rustdoc alone, through the wrapper: build scripts that look at it would run
/// again, and all that depends on them would be built again, at each change between with and without.
///
/// # Errors
/// [`NoJson`].
pub fn json(wrapper: &str) -> Result<PathBuf, NoJson> {
    let found = format_version().map_err(NoJson::OtherToolchain)?;
    if found != FORMAT_VERSION {
        let why = format!("rustdoc writes version {found} of its JSON, and version {FORMAT_VERSION} is read");
        return Err(NoJson::OtherToolchain(why));
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["doc", "--workspace", "--all-features", "--no-deps", "--lib", "--locked", "--quiet"]);
    cargo.arg("--target-dir").arg(target());
    cargo.env(WRAPPED, rustdoc()).env("RUSTDOC", wrapper).env("RUSTDOCFLAGS", AS_JSON.join(" "));
    run(cargo.current_dir(crate::workspace())).map_err(NoJson::Failed)?;
    Ok(target().join("doc"))
}

/// Runs the wrapped rustdoc with these arguments; returns its exit code.
///
/// # Errors
/// If it does not start.
pub fn wrapped(arguments: impl Iterator<Item = OsString>) -> std::io::Result<i32> {
    let rustdoc = env::var_os(WRAPPED).unwrap_or_else(rustdoc);
    let status = Command::new(rustdoc).args(arguments).env("RUSTC_BOOTSTRAP", "1").status()?;
    Ok(status.code().unwrap_or(1))
}

fn rustdoc() -> OsString {
    env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into())
}

/// The version that this toolchain writes, seen at an empty library.
fn format_version() -> Result<u64, String> {
    let folder = target().join("tmp/lock-public-api");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let library = folder.join("empty.rs");
    fs::write(&library, "").map_err(|error| error.to_string())?;
    let mut rustdoc = Command::new(rustdoc());
    rustdoc.args(AS_JSON).arg("--out-dir").arg(&folder).arg(&library).env("RUSTC_BOOTSTRAP", "1");
    run(&mut rustdoc)?;
    let text = fs::read_to_string(folder.join("empty.json")).map_err(|error| error.to_string())?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    json["format_version"].as_u64().ok_or_else(|| "rustdoc's JSON has no format_version".to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let Output { status, stderr, .. } = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let program = command.get_program().display();
    Err(format!("{program} failed ({status}) {}", String::from_utf8_lossy(&stderr).trim()))
}

/// The target folder of the build that this program is of: `<target>/<profile>/deps/<program>`.
fn target() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    program.ancestors().nth(3).map_or_else(|| crate::workspace().join("target"), Path::to_owned)
}
