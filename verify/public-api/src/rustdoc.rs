//! Rustdoc's JSON. The format is unstable: it is versioned, and a stable toolchain only writes it if `RUSTC_BOOTSTRAP`
//! is set.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The format version read by the version of `public-api` that the workspace uses. Rust 1.95 writes it.
pub const FORMAT_VERSION: u64 = 57;

/// The arguments that make rustdoc write JSON.
const AS_JSON: [&str; 4] = ["-Z", "unstable-options", "--output-format", "json"];

/// The environment variable that names the rustdoc to wrap.
const WRAPPED: &str = "LOCK_RUSTDOC";

/// The reason why there is no JSON.
#[derive(Debug, Clone)]
pub enum NoJson {
    /// This toolchain does not write it, or writes another version.
    OtherToolchain(String),
    /// The documentation does not build.
    Failed(String),
}

/// Writes the JSON of all libraries of the workspace, and returns its folder. `wrapper` is a program that calls
/// [`wrapped`].
///
/// It selects packages and features like the steps of `scripts/test`, so that no dependency is checked twice. The
/// wrapper sets `RUSTC_BOOTSTRAP` only for rustdoc. Otherwise, build scripts that read the variable would run again
/// whenever it is set or unset, and everything that depends on them would be rebuilt.
///
/// # Errors
/// [`NoJson`].
pub fn json(wrapper: &str) -> Result<PathBuf, NoJson> {
    let found = format_version().map_err(NoJson::OtherToolchain)?;
    if found != FORMAT_VERSION {
        let why =
            format!("rustdoc writes version {found} of its JSON, but version {FORMAT_VERSION} is required");
        return Err(NoJson::OtherToolchain(why));
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["doc", "--workspace", "--all-features", "--no-deps", "--lib", "--locked", "--quiet"]);
    cargo.arg("--target-dir").arg(target());
    cargo.env(WRAPPED, rustdoc()).env("RUSTDOC", wrapper).env("RUSTDOCFLAGS", AS_JSON.join(" "));
    run(cargo.current_dir(crate::workspace())).map_err(NoJson::Failed)?;
    Ok(target().join("doc"))
}

/// Runs the wrapped rustdoc with these arguments and returns its exit code.
///
/// # Errors
/// If it cannot be started.
pub fn wrapped(arguments: impl Iterator<Item = OsString>) -> std::io::Result<i32> {
    let rustdoc = env::var_os(WRAPPED).unwrap_or_else(rustdoc);
    let status = Command::new(rustdoc).args(arguments).env("RUSTC_BOOTSTRAP", "1").status()?;
    Ok(status.code().unwrap_or(1))
}

fn rustdoc() -> OsString {
    env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into())
}

/// Returns the version that this toolchain writes, determined with an empty library.
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

/// Returns the target folder of the build of this program: `<target>/<profile>/deps/<program>`.
fn target() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    program.ancestors().nth(3).map_or_else(|| crate::workspace().join("target"), Path::to_owned)
}
