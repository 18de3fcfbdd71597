//! A server's directory, which is removed when the last value that uses it is dropped.

use super::config::DUMP;
use crate::watchdog::Watchdog;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// A server's directory, and the watchdog that cleans up the server and the directory.
#[derive(Debug)]
pub(super) struct Home {
    directory: TempDir,
    pub(super) watchdog: Arc<Watchdog>,
}

impl Home {
    pub(super) fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("lock-testkit-redis-")
            .tempdir()
            .expect("failed to create a temporary directory");
        let watchdog = Arc::new(Watchdog::new(directory.path(), "KILL"));
        Self { directory, watchdog }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn config_path(&self) -> PathBuf {
        self.path().join("redis.conf")
    }

    pub(super) fn dump_path(&self) -> PathBuf {
        self.path().join(DUMP)
    }

    /// Opens the log for appending. It receives the process's output, including errors from before
    /// the process opens its log file.
    pub(super) fn log_file(&self) -> File {
        File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("failed to create a file in the temporary directory")
    }

    /// Returns the whole log.
    pub(super) fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.path().join("redis.log")
    }

    /// Removes all files from which a server could load data.
    pub(super) fn forget_data(&self) {
        absent(fs::remove_file(self.dump_path()));
        absent(fs::remove_dir_all(self.path().join("appendonlydir")));
        absent(fs::remove_file(self.path().join("appendonly.aof")));
    }
}

/// Ignores an error caused by a missing file.
fn absent(removed: io::Result<()>) {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            panic!("failed to remove the data of a redis-server: {error}")
        }
        _ => {}
    }
}
