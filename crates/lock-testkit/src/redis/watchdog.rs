//! A shell that outlives a killed test process just long enough to kill its server.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Reads process ids until the pipe is closed by the test process or by its death. It then kills the group of the
/// last one, unless that is empty, and removes the directory.
///
/// The removal runs twice, since a dying process may still write during the first one.
const SCRIPT: &str = r#"
    pid=
    while read -r line; do pid=$line; done
    if [ -n "$pid" ]; then kill -9 "-$pid"; fi
    rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

#[derive(Debug)]
pub(super) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    pub(super) fn new(directory: &Path) -> Self {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals to the tests' group, from a terminal or from `timeout`, must not end the watchdog.
            .process_group(0)
            .spawn()
            .expect("there is a shell");
        Self { shell }
    }

    /// Watches this process from now on.
    ///
    /// `None` once a process was reaped, since its id may be reused.
    pub(super) fn watch(&self, pid: Option<u32>) {
        let line = pid.map(|pid| pid.to_string()).unwrap_or_default() + "\n";
        let mut pipe = self.shell.stdin.as_ref().expect("the pipe is there until the watchdog is dropped");
        // A server with a missing watchdog is no reason to fail a test.
        let _ = pipe.write_all(line.as_bytes());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Waiting closes the pipe first.
        let _ = self.shell.wait();
    }
}
