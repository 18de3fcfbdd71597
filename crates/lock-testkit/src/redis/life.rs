//! The life cycle of a server: pauses, kills, and restarts with current, old or no data.

use super::{Dump, RedisServer, launch};
use crate::process::Process;
use rustix::process::Signal;
use std::{fs, time::Duration};

/// The time limit for a graceful shutdown.
const PATIENCE: Duration = Duration::from_secs(60);

impl RedisServer {
    /// Suspends the process (`SIGSTOP`). Connections stay open and new ones are accepted, but the
    /// server does not respond. Pausing twice has no further effect.
    ///
    /// # Panics
    /// Panics if the server is stopped.
    #[track_caller]
    pub fn pause(&self) {
        self.running(Process::pause);
    }

    /// Resumes the process (`SIGCONT`), which then replies to everything it was sent.
    ///
    /// # Panics
    /// Panics if the server is stopped.
    #[track_caller]
    pub fn resume(&self) {
        self.running(Process::resume);
    }

    /// Kills the process (`SIGKILL`) and waits until it has ended. A restart uses the same ports, which
    /// the kernel does not assign to other programs.
    pub fn stop(&self) {
        drop(self.with_process(Option::take));
    }

    /// Ends the process gracefully (`SIGTERM`). A
    /// [persistent](super::RedisServerBuilder::persistent) server dumps its data.
    pub fn shutdown(&self) {
        if let Some(mut process) = self.with_process(Option::take) {
            process.end(Signal::TERM, PATIENCE);
        }
    }

    /// Kills the process if it is running and starts a new one. Returns once the server responds
    /// and has loaded its data.
    ///
    /// A [persistent](super::RedisServerBuilder::persistent) server loads its last dump. Any other
    /// server starts empty.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        if !self.settings.persistent {
            self.home.forget_data();
        }
        self.begin();
    }

    /// Restarts the server like [`restart`](RedisServer::restart), without any data.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart_empty(&self) {
        self.stop();
        self.home.forget_data();
        self.begin();
    }

    /// Restarts the server like [`restart`](RedisServer::restart), with the data of this dump. Keys
    /// that have since expired are not loaded.
    ///
    /// # Panics
    /// Panics with the server's log if it does not start.
    #[track_caller]
    pub fn restart_from(&self, dump: &Dump) {
        self.stop();
        self.home.forget_data();
        fs::write(self.home.dump_path(), dump.bytes()).expect("failed to write to the temporary directory");
        self.begin();
    }

    #[track_caller]
    fn begin(&self) {
        let process = launch::again(self);
        // Kill a concurrently started process here, after the lock is released.
        drop(self.with_process(|current| current.replace(process)));
    }

    #[track_caller]
    fn running(&self, f: impl FnOnce(&mut Process)) {
        let running = self.with_process(|process| process.as_mut().map(f).is_some());
        assert!(running, "the redis-server at {} is stopped", self.address());
    }
}
