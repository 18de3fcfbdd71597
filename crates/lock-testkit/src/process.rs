//! A server process.

use crate::watchdog::Watchdog;
use rustix::{
    io::retry_on_intr,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use std::{
    fs::File,
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

/// A server process. It is killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watchdog: Arc<Watchdog>,
}

impl Process {
    /// Starts the command, whose output goes to the log, and has the watchdog watch it.
    pub(crate) fn spawn(command: &mut Command, log: File, watchdog: &Arc<Watchdog>) -> io::Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            // A separate group: signals to the tests' group do not reach the server, and ours also
            // reach the children of a server that leaves them in its group.
            .process_group(0)
            .spawn()?;
        watchdog.watch(Some(child.id()));
        Ok(Self { child, watchdog: watchdog.clone() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process has exited.
    pub(crate) fn has_ended(&mut self) -> bool {
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if ended {
            self.watchdog.watch(None);
        }
        ended
    }

    /// Suspends the process, and waits until it is suspended.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
        // `kill` returns before the signal takes effect. `NOWAIT` leaves the state reportable,
        // which allows pausing twice.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(&self.child)), stopped))
            .expect("failed to pause the server");
    }

    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Sends the signal and waits up to `patience`. Dropping the value kills a process that is still
    /// running.
    pub(crate) fn end(&mut self, signal: Signal, patience: Duration) {
        self.resume();
        self.signal(signal);
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
        self.watchdog.watch(None);
    }
}
