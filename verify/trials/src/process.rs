//! A process under test: started, controlled, observed, and killed when dropped. Also helpers for several processes or threads
//! at once.

use crate::line::{Line, Order, json};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

/// The time limit of anything that may hang. Even on a busy machine, the next line needs only a small part of it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running process that writes lines.
#[derive(Debug)]
pub struct Process {
    child: Child,
    orders: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    /// Starts the process.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} starts: {error}"));
        let orders = child.stdin.take().expect("stdin is a pipe");
        let out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let (say, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                let Ok(line) = line else { return };
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, orders, lines }
    }

    /// Sends an order. A process that has ended does not receive it.
    pub fn tell(&mut self, order: &Order) {
        let _ = writeln!(self.orders, "{}", json(order)).and_then(|()| self.orders.flush());
    }

    /// Returns the next line.
    ///
    /// # Panics
    /// If none arrives in time, or the process has ended.
    pub fn line(&mut self) -> Line {
        self.line_within(PATIENCE).unwrap_or_else(|| panic!("no line within {PATIENCE:?}"))
    }

    /// Returns the next line, or `None` if none arrives in time.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn line_within(&mut self, time: Duration) -> Option<Line> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Some(Line::new(&line)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the process has ended: {:?}", self.child.wait()),
        }
    }

    /// Returns the next report, which must be of this kind.
    ///
    /// # Panics
    /// If it is of another kind.
    pub fn expect(&mut self, word: &str) -> Line {
        let line = self.line();
        assert_eq!(line.word(), word, "{line:?}");
        line
    }

    /// Returns all reports up to and including the first one of this kind.
    pub fn until(&mut self, word: &str) -> Vec<Line> {
        let mut lines = vec![self.line()];
        while lines.last().is_some_and(|line| line.word() != word) {
            lines.push(self.line());
        }
        lines
    }

    /// Returns the remaining reports of a process that was killed.
    ///
    /// # Panics
    /// If it is still running.
    pub fn rest(&mut self) -> Vec<Line> {
        let ended = self.child.try_wait().expect("waitable child");
        assert!(ended.is_some(), "the process is still running");
        self.lines.iter().map(|line| Line::new(&line)).collect()
    }

    /// Waits for the end of the process. Returns `true` if it ended successfully.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn ends(mut self) -> bool {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waitable child") {
                return status.success();
            }
            assert!(begin.elapsed() < PATIENCE, "still running after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the process, like `kill -9`.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the process to end, like a service manager.
    #[cfg(unix)]
    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Returns the processor time that the process has used, on Linux.
    ///
    /// # Panics
    /// If the system does not report it.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("Linux reports it");
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let ticks =
            after_name.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
        // A tick is a hundredth of a second on every common Linux.
        Duration::from_millis(ticks * 10)
    }

    /// Suspends the process, and returns once it is suspended.
    #[cfg(unix)]
    pub fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        // Linux reports the state; elsewhere a short sleep must suffice.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") T ")) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Resumes the process.
    #[cfg(unix)]
    pub fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the child was not reaped");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts counting in all processes, waits for their successful ends, and returns the tokens of all grants in the order
/// of time.
///
/// # Panics
/// If one of them fails.
pub fn count_together(mut nodes: Vec<Process>) -> Vec<u64> {
    for node in &mut nodes {
        node.expect("ready");
    }
    nodes.iter_mut().for_each(|node| node.tell(&Order::Go));
    let mut grants = Vec::new();
    for node in &mut nodes {
        for line in node.until("done").iter().filter(|line| line.word() == "token") {
            grants.push((line.number("at"), line.number("token")));
        }
    }
    assert!(nodes.into_iter().all(Process::ends), "clean exits");
    grants.sort_unstable();
    grants.into_iter().map(|(_, token)| token).collect()
}

/// Runs `work` in this many threads.
///
/// # Panics
/// If one of them panics.
pub fn at_once<T: Send + 'static>(
    times: usize,
    work: impl Fn(usize) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let threads: Vec<_> = (0..times)
        .map(|number| {
            let work = work.clone();
            std::thread::spawn(move || work(number))
        })
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect()
}
