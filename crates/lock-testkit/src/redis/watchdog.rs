//! A shell that outlives a killed test process just long enough to kill its server.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// It reads process ids until the pipe is closed, by the test process or by its death; then it kills the last one's
/// group, unless that is empty, and removes the directory.
///
/// Twice, since what a dying process still writes may come between the two steps of a removal.
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
            // What is sent to the tests' group, by a terminal or by `timeout`, must not end this one too.
            .process_group(0)
            .spawn()
            .expect("there is a shell");
        Self { shell }
    }

    /// From now on it is this process that must not be left behind.
    ///
    /// `None` once a process was waited for: its id may soon be somebody else's.
    pub(super) fn watch(&self, pid: Option<u32>) {
        let line = pid.map(|pid| pid.to_string()).unwrap_or_default() + "\n";
        let mut pipe = self.shell.stdin.as_ref().expect("the pipe is there until the watchdog is dropped");
        // Without its watchdog a server is merely less well watched: no reason to fail a test.
        let _ = pipe.write_all(line.as_bytes());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Waiting closes the pipe first.
        let _ = self.shell.wait();
    }
}
