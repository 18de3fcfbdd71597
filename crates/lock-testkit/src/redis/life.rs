//! The life cycle of a server: pauses, kills, and restarts with current, old or no data.

use super::{Dump, RedisServer, launch, process::Process};
use std::{fs, time::Duration};

/// The time limit of an orderly end.
const PATIENCE: Duration = Duration::from_secs(60);

impl RedisServer {
    /// Suspends the process (`SIGSTOP`). Connections stay open and are accepted, but nothing is answered. Pausing
    /// twice has no further effect.
    ///
    /// # Panics
    /// Panics if the server is stopped.
    #[track_caller]
    pub fn pause(&self) {
        self.running(Process::pause);
    }

    /// Resumes the process (`SIGCONT`), which then answers everything that it was sent.
    ///
    /// # Panics
    /// Panics if the server is stopped.
    #[track_caller]
    pub fn resume(&self) {
        self.running(Process::resume);
    }

    /// Kills the process (`SIGKILL`) and returns once it is gone. A restart starts a new one on the same ports, which
    /// the kernel assigns to no other program.
    pub fn stop(&self) {
        drop(self.with_process(Option::take));
    }

    /// Ends the process gracefully (`SIGTERM`). A [persistent](super::RedisServerBuilder::persistent) one dumps its
    /// data.
    pub fn shutdown(&self) {
        if let Some(mut process) = self.with_process(Option::take) {
            process.end(PATIENCE);
        }
    }

    /// Kills the process if there is one and starts another. Returns once it answers and has loaded its data.
    ///
    /// The data is that of the last dump if it is [persistent](super::RedisServerBuilder::persistent), otherwise
    /// empty.
    ///
    /// # Panics
    /// Panics if it does not start, with its log.
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        if !self.settings.persistent {
            self.home.forget_data();
        }
        self.begin();
    }

    /// Does the same as [`restart`](RedisServer::restart), without any data.
    ///
    /// # Panics
    /// Panics if it does not start, with its log.
    #[track_caller]
    pub fn restart_empty(&self) {
        self.stop();
        self.home.forget_data();
        self.begin();
    }

    /// Does the same as [`restart`](RedisServer::restart), with the data of this dump. Keys that have expired since
    /// are gone.
    ///
    /// # Panics
    /// Panics if it does not start, with its log.
    #[track_caller]
    pub fn restart_from(&self, dump: &Dump) {
        self.stop();
        self.home.forget_data();
        fs::write(self.home.dump_path(), dump.bytes())
            .expect("a file can be written in a directory of our own");
        self.begin();
    }

    #[track_caller]
    fn begin(&self) {
        let process = launch::again(self);
        // A process that was started concurrently is killed here, not while the lock is held.
        drop(self.with_process(|current| current.replace(process)));
    }

    #[track_caller]
    fn running(&self, f: impl FnOnce(&mut Process)) {
        let running = self.with_process(|process| process.as_mut().map(f).is_some());
        assert!(running, "the redis-server at {} is stopped", self.address());
    }
}
