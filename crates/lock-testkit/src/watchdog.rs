//! A shell that ends the server of a killed test process.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Reads process ids until the test process closes the pipe or exits. It then signals the last
/// process's group, unless the id is empty, and removes the directory.
///
/// A failed removal is repeated, because a process that is ending may still write to the directory.
const SCRIPT: &str = r#"
    pid=
    while read -r line; do pid=$line; done
    if [ -n "$pid" ]; then kill "-$2" "-$pid"; fi
    rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Starts the shell. `signal` is the name of the signal that ends the server, such as `KILL`.
    pub(crate) fn new(directory: &Path, signal: &str) -> Self {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(directory)
            .arg(signal)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals to the tests' group, from a terminal or from `timeout`, must not end the watchdog.
            .process_group(0)
            .spawn()
            .expect("failed to start `sh`");
        Self { shell }
    }

    /// Sets the process to end.
    ///
    /// Pass `None` after a process was reaped, because its id may be reused.
    pub(crate) fn watch(&self, pid: Option<u32>) {
        let line = pid.map(|pid| pid.to_string()).unwrap_or_default() + "\n";
        let mut pipe = self.shell.stdin.as_ref().expect("the pipe exists until the watchdog is dropped");
        // A missing watchdog must not fail the test.
        let _ = pipe.write_all(line.as_bytes());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Waiting closes the pipe first.
        let _ = self.shell.wait();
    }
}
