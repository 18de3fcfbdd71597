//! Dumps, which contain a server's data at one moment for a later restart.

use super::RedisServer;
use std::{
    fmt, fs,
    thread::sleep,
    time::{Duration, Instant},
};

/// The time limit for waiting until a dump in progress has completed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A copy of a server's data. See [`RedisServer::dump`] and [`RedisServer::restart_from`].
#[derive(Clone)]
pub struct Dump {
    bytes: Vec<u8>,
}

impl Dump {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl RedisServer {
    /// Copies all current data (`SAVE`).
    ///
    /// # Panics
    /// Panics if the server does not respond or cannot save.
    #[must_use]
    #[track_caller]
    pub fn dump(&self) -> Dump {
        let mut raw = self.raw();
        let begin = Instant::now();
        loop {
            let answer = raw.command(&["SAVE"]);
            if !answer.is_error() {
                break;
            }
            let busy = format!("{answer:?}").contains("in progress");
            assert!(busy && begin.elapsed() < PATIENCE, "redis-server cannot save its data: {answer:?}");
            sleep(Duration::from_millis(5));
        }
        let bytes = fs::read(self.home.dump_path()).expect("failed to read the dump");
        Dump { bytes }
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dump").field("bytes", &self.bytes.len()).finish()
    }
}
