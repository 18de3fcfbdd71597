//! Adjustable clocks for running processes.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tempfile::TempDir;

/// The preloaded library, compiled once per test process.
static LIBRARY: LazyLock<TempDir> = LazyLock::new(compile);

/// An adjustable wall clock for the processes it is [given to](ClockShift::give_to), stored as an
/// offset from the real one. Clones share the offset.
///
/// Affects programs that read the time through libc, such as Redis, the databases and Rust's `SystemTime`.
/// Monotonic clocks are not affected, unless the process is [suspended](Self::suspended).
#[derive(Debug, Clone)]
pub struct ClockShift {
    directory: Arc<TempDir>,
}

impl ClockShift {
    /// Creates a clock that shows the real time.
    ///
    /// # Panics
    /// Panics if there is no C compiler or the temporary directory cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let directory = folder();
        let this = Self { directory: Arc::new(directory) };
        this.write(0, 0);
        this.suspended(Duration::ZERO);
        this
    }

    /// Sets the clock ahead by `seconds`, or back if negative.
    ///
    /// # Panics
    /// Panics if the clock's file no longer exists.
    pub fn set(&self, seconds: i64) {
        self.write(0, seconds * 1_000_000);
    }

    /// Holds the monotonic clock back by this time, for which the machine of the process was suspended so far. The boot-time
    /// clock runs on. Stop the process meanwhile.
    ///
    /// # Panics
    /// Panics if the clock's file no longer exists.
    pub fn suspended(&self, time: Duration) {
        self.write(8, i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
    }

    fn write(&self, at: u64, micros: i64) {
        use std::os::unix::fs::FileExt as _;
        // Write in place: the processes have mapped this file.
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.directory.path().join("offset"))
            .expect("failed to open the offset file");
        file.write_all_at(&micros.to_ne_bytes(), at).expect("failed to write the offset file");
    }

    /// Makes the process started by `command` use this clock.
    pub fn give_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", LIBRARY.path().join("clock_shift.so"));
        command.env("LOCK_TESTKIT_CLOCK", self.directory.path().join("offset"));
    }
}

impl Default for ClockShift {
    fn default() -> Self {
        Self::new()
    }
}

/// A folder that other users can read: databases run as users of their own.
fn folder() -> TempDir {
    let readable = fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(readable).tempdir();
    folder.expect("failed to create a temporary directory")
}

fn compile() -> TempDir {
    let directory = folder();
    let (source, library) = (directory.path().join("clock_shift.c"), directory.path().join("clock_shift.so"));
    fs::write(&source, include_str!("clock_shift.c")).expect("failed to write to the temporary directory");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let run = |source: &Path| {
        Command::new(&compiler).args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output()
    };
    match run(&source) {
        Ok(output) if output.status.success() => directory,
        Ok(output) => {
            panic!("failed to compile the clock shift: {}", String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => {
            panic!("no C compiler found ({error}): install one, for example with `apt-get install gcc`")
        }
    }
}
