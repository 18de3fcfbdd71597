//! What a server can go through: pauses, deaths, and rebirths with the data of today or of yesterday.

use super::{Dump, RedisServer, launch, process::Process};
use std::{fs, time::Duration};

/// How long an orderly end may take.
const PATIENCE: Duration = Duration::from_secs(60);

impl RedisServer {
    /// The process stands still (`SIGSTOP`): connections stay and are accepted, nothing is answered. Pausing twice is
    /// pausing once.
    ///
    /// # Panics
    /// If the server is stopped.
    #[track_caller]
    pub fn pause(&self) {
        self.running(Process::pause);
    }

    /// The process goes on (`SIGCONT`), and answers what it was sent meanwhile.
    ///
    /// # Panics
    /// If the server is stopped.
    #[track_caller]
    pub fn resume(&self) {
        self.running(Process::resume);
    }

    /// Kills the process (`SIGKILL`) and returns when it is gone. A new one comes with one of the restarts, on the
    /// same ports: they are none that the kernel gives to others.
    pub fn stop(&self) {
        drop(self.with_process(Option::take));
    }

    /// Ends the process in order (`SIGTERM`): a [persistent](super::RedisServerBuilder::persistent) one dumps its
    /// data.
    pub fn shutdown(&self) {
        if let Some(mut process) = self.with_process(Option::take) {
            process.end(PATIENCE);
        }
    }

    /// Kills the process if there is one, and starts another; returns when it answers and has loaded its data.
    ///
    /// The data are those of the last dump if it is [persistent](super::RedisServerBuilder::persistent), else none.
    ///
    /// # Panics
    /// If it does not start, with its log.
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        if !self.settings.persistent {
            self.home.forget_data();
        }
        self.begin();
    }

    /// As [`restart`](RedisServer::restart), without any data.
    ///
    /// # Panics
    /// If it does not start, with its log.
    #[track_caller]
    pub fn restart_empty(&self) {
        self.stop();
        self.home.forget_data();
        self.begin();
    }

    /// As [`restart`](RedisServer::restart), with the data of this dump. Keys that have expired since are gone.
    ///
    /// # Panics
    /// If it does not start, with its log.
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
        // A process that was started at the same time would die here, and not with the lock held.
        drop(self.with_process(|current| current.replace(process)));
    }

    #[track_caller]
    fn running(&self, f: impl FnOnce(&mut Process)) {
        let running = self.with_process(|process| process.as_mut().map(f).is_some());
        assert!(running, "the redis-server at {} is stopped", self.address());
    }
}
