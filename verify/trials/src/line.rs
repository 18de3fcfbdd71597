//! The protocol of a process: JSON objects, one per line. Reports are written to stdout, orders are read from stdin, whose end
//! ends the process, since its controller is gone.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A report of a process. A Redisson peer writes `ready`, `held`, `released`, `is_held`, `token`, `done`, `forced`
/// and `locked`. Times are those of [`now`].
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "say", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Report {
    /// The process waits for [`Order::Go`], or its job is registered.
    Ready,
    /// The process holds the lock.
    Held { token: u64, at: u64 },
    /// The process has released the lock.
    Released { at: u64, was_held: bool },
    /// The answer to [`Order::IsHeld`].
    IsHeld { held: bool },
    /// The answer to [`Order::Lost`]: the loss, and its reason.
    Lost { reason: String },
    /// The answer to [`Order::Read`]; not fresh if a newer holder was there.
    Read { fresh: bool },
    /// The answer to [`Order::Write`], or the write of a job; not accepted if a newer holder was there.
    Write { accepted: bool },
    /// The start of a section, with the number of hand-offs of its lease so far.
    Inside { token: u64, passes: u32, at: u64 },
    /// The end of the section. The lock is still held.
    Left { token: u64, at: u64 },
    /// One of many grants.
    Token { token: u64, at: u64 },
    /// A grant of a fair lock to the task with this number.
    Turn { process: String, number: u64, token: u64 },
    /// A section of one lock: the times of its request and its grant, the outcome of its release, and the acceptance
    /// of its write by the fenced table.
    Section { lock: String, token: u64, asked: u64, at: u64, end: SectionEnd, accepted: bool },
    /// All sections were completed.
    Done { sections: usize },
    /// The final answer to a request with this idempotency key.
    Paid { key: u64, answer: String },
    /// The numbers of clients that left, rejected requests, failed attempts, replays, and locks forcibly released.
    Payments { left: usize, rejected: usize, failed: usize, replayed: usize, forced: usize },
    /// A forced release. `forced` is set if there was a holder.
    Forced { forced: bool },
    /// The state of a lock in the store, with the remaining time of the lease in ms.
    Locked { locked: bool, remaining: Option<u128> },
    /// The process takes part in an election, under this id.
    Candidate { process: String },
    /// A term of the process begins.
    Elected { token: u64, at: u64 },
    /// The body of a term has ended, and its lock is about to be released.
    BodyEnded { at: u64 },
    /// The answer to [`Order::Role`]: the id of the leader, empty if the process knows none.
    Role { leading: bool, leader: String },
    /// The node was elected.
    Leading,
    /// The node is no longer the leader.
    Resigned,
    /// A run starts, at a time of the server's clock. `began` is the same by the clock of the process.
    Start { job: String, run: String, at: u64, token: u64, attempt: u32, began: u64 },
    /// A run ended on its own.
    Ended { job: String, run: String, token: u64, at: u64 },
    /// A run ended because it was cancelled.
    Cancelled { job: String, run: String, token: u64, at: u64 },
    /// The answer to [`Order::Trigger`].
    Triggered { run: String },
    /// The answer to [`Order::Next`], in milliseconds since the epoch.
    Next { runs: Vec<u64> },
    /// One attempt of the history.
    Past { run: String, attempt: u32, token: u64, outcome: String },
    /// An order to a node of a fleet was executed.
    Obeyed,
    /// An order to a node of a fleet failed.
    Refused { why: String },
    /// The node has stopped.
    Stopped,
    /// The process has forked.
    Copied { pid: u32 },
    /// The lease id under which a process or its copy holds the lock, empty if it does not.
    Twin { copy: bool, lease: String },
    /// The answers to a child that used a guard and the factory of its parent: `is_held()`, the errors of other calls, and
    /// whether its shutdown reported no lock; and whether a factory that it made renewed a lease.
    Forked { held: bool, errors: Vec<String>, clean: bool, anew: bool },
    /// The parent still held a lock after that, and when it released it.
    Kept { kept: bool, was_held: bool },
    /// The address of the referee.
    Listening { address: SocketAddr },
    /// A violation that the referee found.
    Violation { kind: ViolationKind, text: String },
    /// The number of holds that the referee recorded, of those of a lease that had been released by force, and of
    /// violations.
    Verdict { windows: usize, left_out: usize, violations: usize },
}

/// The kind of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// Two holds were valid at the same time, or permits above the limit.
    Overlap,
    /// A later hold had a smaller token.
    TokenFell,
    /// Two holds had one token.
    TokenRepeated,
}

/// The outcome of the release at the end of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionEnd {
    /// The lock was held to the end.
    Released,
    /// The hold was lost earlier.
    Lost,
    /// The release was not confirmed, or failed.
    Failed,
}

impl Report {
    /// Writes the report to stdout immediately.
    pub fn say(&self) {
        use std::io::Write;
        let line = json(self);
        let mut out = std::io::stdout().lock();
        // A reader that is gone has also closed stdin, which ends this process.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// An order to a process. A Redisson peer supports `go`, `acquire`, `release`, `is_held` and `quit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Order {
    /// Start counting.
    Go,
    /// Acquire the lock again.
    Acquire,
    /// Release the lock.
    Release,
    /// Report whether the lock is held.
    IsHeld,
    /// Wait until the hold is lost and report it.
    Lost,
    /// Read a fenced table.
    Read { file: PathBuf },
    /// Write to the table that was read.
    Write,
    /// End without releasing anything.
    Quit,
    /// Pause the job.
    Pause,
    /// Resume the job.
    Resume,
    /// Trigger a run of the job.
    Trigger,
    /// Replace the schedule of the job.
    Replace { schedule: String },
    /// Report the next five runs.
    Next,
    /// Report all attempts, oldest first.
    History,
    /// Add an instance of the node's kind.
    Add { id: String, schedule: String },
    /// Run the node's kind once, at an instant in milliseconds since the epoch.
    Once { id: String, at: u64 },
    /// Remove an instance, and keep its record.
    Remove { id: String },
    /// Remove an instance with all its data.
    Forget { id: String },
    /// Report the role in the election.
    Role,
    /// Stop the node, or the work.
    Stop,
    /// Judge, once all witnesses have disconnected.
    Judge,
}

/// Formats a value as one line of JSON, without its line end.
///
/// # Panics
/// Never: the values have text keys and cannot fail to serialise.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("serializable")
}

/// Returns the wall clock in µs since the epoch, which all processes of a machine share.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// A report as read by a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(Value);

impl Line {
    /// Parses a line.
    ///
    /// # Panics
    /// If it is not JSON.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_else(|error| panic!("{text:?} is JSON: {error}")))
    }

    /// Returns the kind of the report.
    #[must_use]
    pub fn word(&self) -> &str {
        self.text("say")
    }

    /// Returns the text in this field.
    ///
    /// # Panics
    /// If the field is missing or no text.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{key} is a text in {}", self.0))
    }

    /// Returns the number in this field. The id of a scheduled run is a number in a text.
    ///
    /// # Panics
    /// If the field is missing or no number.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        let value = &self.0[key];
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.unwrap_or_else(|| panic!("{key} is a number in {}", self.0))
    }

    /// Returns the numbers in this field.
    ///
    /// # Panics
    /// If the field is missing or no list.
    #[must_use]
    pub fn numbers(&self, key: &str) -> Vec<u64> {
        let values = self.0[key].as_array().unwrap_or_else(|| panic!("{key} is a list in {}", self.0));
        values.iter().filter_map(Value::as_u64).collect()
    }

    /// Returns the texts in this field.
    ///
    /// # Panics
    /// If the field is missing or no list.
    #[must_use]
    pub fn texts(&self, key: &str) -> Vec<&str> {
        let values = self.0[key].as_array().unwrap_or_else(|| panic!("{key} is a list in {}", self.0));
        values.iter().filter_map(Value::as_str).collect()
    }

    /// Returns the boolean in this field.
    ///
    /// # Panics
    /// If the field is missing or no boolean.
    #[must_use]
    pub fn is(&self, key: &str) -> bool {
        self.0[key].as_bool().unwrap_or_else(|| panic!("{key} is yes or no in {}", self.0))
    }
}

/// The orders to this process.
#[derive(Debug)]
pub struct Orders(UnboundedReceiver<Order>);

impl Orders {
    /// Reads orders from stdin. Its end ends the process.
    #[must_use]
    pub fn from_stdin() -> Self {
        let (orders, receiver) = unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                let Ok(line) = line else { break };
                let Ok(order) = serde_json::from_str(&line) else {
                    eprintln!("error: the order {line:?} is unknown");
                    std::process::exit(2);
                };
                if orders.send(order).is_err() {
                    return;
                }
            }
            // Immediately and without releasing anything, as if the process were killed.
            std::process::exit(0);
        });
        Self(receiver)
    }

    /// Returns the next order.
    ///
    /// # Cancel safety
    /// No order is lost.
    pub async fn next(&mut self) -> Order {
        match self.0.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }

    /// Waits for this order. Drops other orders before it.
    ///
    /// # Cancel safety
    /// Dropped orders are not restored.
    pub async fn wait_for(&mut self, order: &Order) {
        while self.next().await != *order {}
    }
}
