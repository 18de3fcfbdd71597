//! A server process.

use super::{RedisServer, config::Settings, home::Home};
use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

/// A server process. It is killed and reaped when dropped, before its directory is removed.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    home: Arc<Home>,
}

impl Process {
    /// Starts the server in this directory, with the configuration stored there.
    pub(super) fn spawn(home: Arc<Home>, settings: &Settings) -> Self {
        let binary = env::var_os(RedisServer::VARIABLE).unwrap_or_else(|| OsString::from("redis-server"));
        let log = home.log_file();
        let mut command = Command::new(&binary);
        if let Some(clock) = &settings.clock {
            clock.give_to(&mut command);
        }
        command.arg(home.config_path());
        if settings.watched.is_some() {
            command.arg("--sentinel");
        }
        let child = command
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("failed to clone the log file handle"))
            .stdout(log)
            // A separate group: signals to the tests' group do not reach the server, and ours also
            // reach the child it forks to save.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "failed to run `{}` ({error}): install Redis, for example with `apt-get install redis-server`, \
                     or name the binary in the environment variable {}",
                    binary.display(),
                    RedisServer::VARIABLE
                )
            });
        home.watchdog.watch(Some(child.id()));
        Self { child, home }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process has exited.
    pub(super) fn has_ended(&mut self) -> bool {
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if ended {
            self.home.watchdog.watch(None);
        }
        ended
    }

    /// Suspends the process, and waits until it is suspended.
    pub(super) fn pause(&mut self) {
        self.signal(Signal::STOP);
        // `kill` returns before the signal takes effect. `NOWAIT` leaves the state reportable,
        // which allows pausing twice.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(&self.child)), stopped))
            .expect("failed to pause redis-server");
    }

    pub(super) fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Sends `SIGTERM` and waits up to `patience`. Dropping the value kills a process that is still
    /// running.
    pub(super) fn end(&mut self, patience: Duration) {
        self.resume();
        self.signal(Signal::TERM);
        let begin = Instant::now();
        while !self.has_ended() && begin.elapsed() < patience {
            sleep(Duration::from_millis(2));
        }
    }

    fn signal(&mut self, signal: Signal) {
        // The id of a reaped process may be reused.
        if !self.has_ended() {
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.home.watchdog.watch(None);
    }
}
