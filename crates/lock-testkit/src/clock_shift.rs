//! A wall clock that can be set for running processes.

use std::{
    env, fs,
    path::Path,
    process::Command,
    sync::{Arc, LazyLock},
};
use tempfile::TempDir;

/// The preloaded library, compiled once per test process.
static LIBRARY: LazyLock<TempDir> = LazyLock::new(compile);

/// The wall clock of the processes that it is [given to](ClockShift::give_to), as an offset from the real one. Clones
/// set the same clock.
///
/// It affects programs that ask libc for the time, as Redis and Rust's `SystemTime` do. Monotonic clocks are not
/// affected.
#[derive(Debug, Clone)]
pub struct ClockShift {
    directory: Arc<TempDir>,
}

impl ClockShift {
    /// Creates a clock that shows the real time.
    ///
    /// # Panics
    /// Panics if there is no C compiler, or no temporary directory.
    #[must_use]
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let this = Self { directory: Arc::new(directory) };
        this.set_micros(0);
        this
    }

    /// Sets the clock ahead by this many seconds, or back if negative.
    ///
    /// # Panics
    /// Panics if its file no longer exists.
    pub fn set(&self, seconds: i64) {
        self.set_micros(seconds * 1_000_000);
    }

    fn set_micros(&self, micros: i64) {
        use std::io::Write;
        // Written in place, since the processes have mapped this very file.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.directory.path().join("offset"))
            .expect("the offset can be opened");
        file.write_all(&micros.to_ne_bytes()).expect("the offset can be written");
    }

    /// Makes processes started by this command use this clock.
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

fn compile() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let (source, library) = (directory.path().join("clock_shift.c"), directory.path().join("clock_shift.so"));
    fs::write(&source, include_str!("clock_shift.c"))
        .expect("a file can be written in a directory of our own");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let run = |source: &Path| {
        Command::new(&compiler).args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output()
    };
    match run(&source) {
        Ok(output) if output.status.success() => directory,
        Ok(output) => panic!("the clock shift does not compile: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            panic!("there is no C compiler ({error}): install one, for example with `apt-get install gcc`")
        }
    }
}
