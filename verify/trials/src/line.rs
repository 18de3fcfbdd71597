//! The lines of a process: JSON objects, one a line. Reports leave on stdout, orders come in on stdin.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

/// A report of a process. A Redisson peer writes `ready`, `held`, `released`, `is_held`, `token`, `done`, `forced` and
/// `locked`. Times are those of [`now`].
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "say", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Report {
    /// It waits for [`Order::Go`], or its job is registered.
    Ready,
    /// It holds the lock.
    Held { token: u64, at: u64 },
    /// It has released the lock.
    Released { at: u64, was_held: bool },
    /// The answer to [`Order::IsHeld`].
    IsHeld { held: bool },
    /// The answer to [`Order::Lost`]: the loss, and its reason.
    Lost { reason: String },
    /// The answer to [`Order::Read`]; not fresh if a newer holder was there.
    Read { fresh: bool },
    /// The answer to [`Order::Write`], or the write of a job; not accepted if a newer holder was there.
    Write { accepted: bool },
    /// A section begins. Its lease was passed on that often before.
    Inside { token: u64, passes: u32, at: u64 },
    /// The section ends, and the lock is still held.
    Left { token: u64, at: u64 },
    /// One grant of many.
    Token { token: u64, at: u64 },
    /// A section of one lock: when it was asked for and granted, the outcome of its release, and whether the fenced table
    /// accepted its write.
    Section { lock: String, token: u64, asked: u64, at: u64, end: SectionEnd, accepted: bool },
    /// All sections were passed.
    Done { sections: usize },
    /// A forced release, and whether there was a holder.
    Forced { forced: bool },
    /// The state of a lock in the store; the remaining time of the lease in milliseconds.
    Locked { locked: bool, remaining: Option<u128> },
    /// The node was elected.
    Leading,
    /// The node is no longer the leader.
    Resigned,
    /// A run starts, at a time of the server.
    Start { run: String, at: u64, token: u64, attempt: u32 },
    /// A run ended by itself.
    Ended { run: String },
    /// A run ended because it was cancelled.
    Cancelled { run: String },
    /// The answer to [`Order::Trigger`].
    Triggered { run: String },
    /// The answer to [`Order::Next`], in milliseconds since the epoch.
    Next { runs: Vec<i64> },
    /// One attempt of the history.
    Past { run: String, attempt: u32, token: u64, outcome: String },
    /// An order of a node of a fleet was carried out.
    Obeyed,
    /// An order of a node of a fleet failed.
    Refused { why: String },
    /// The node has stopped.
    Stopped,
    /// The address of the referee.
    Listening { address: SocketAddr },
    /// Something that must not be.
    Violation { text: String },
    /// The numbers of holds that the referee heard of, and of violations.
    Verdict { windows: usize, violations: usize },
}

/// The outcome of the release at the end of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionEnd {
    /// The lock was held until then.
    Released,
    /// The hold was lost before.
    Lost,
    /// The release was not confirmed, or failed.
    Failed,
}

impl Report {
    /// Writes it to stdout, at once.
    pub fn say(&self) {
        use std::io::Write;
        let line = json(self);
        let mut out = std::io::stdout().lock();
        // A listener that is gone has closed stdin as well, which ends this process.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// An order to a process. A Redisson peer knows `go`, `acquire`, `release`, `is_held` and `quit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named for what they are")]
pub enum Order {
    /// Begin to count.
    Go,
    /// Acquire the lock again.
    Acquire,
    /// Release the lock.
    Release,
    /// Report whether the lock is held.
    IsHeld,
    /// Wait until the hold is lost, and report it.
    Lost,
    /// Read a fenced table.
    Read { file: PathBuf },
    /// Write to the table that was read.
    Write,
    /// End, and release nothing.
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
    /// Report all attempts, the oldest first.
    History,
    /// Stop the node, or the work.
    Stop,
    /// Judge, once all witnesses have left.
    Judge,
}

/// A value as one line of JSON, without its end.
///
/// # Panics
/// Never: the values here have text keys, and nothing that fails.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the values of this protocol are JSON")
}

/// The wall clock, in microseconds since the epoch: all processes of one machine have the same.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// A report as a test reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(Value);

impl Line {
    /// Reads a line.
    ///
    /// # Panics
    /// If it is not JSON.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_else(|error| panic!("{text:?} is JSON: {error}")))
    }

    /// The kind of the report.
    #[must_use]
    pub fn word(&self) -> &str {
        self.text("say")
    }

    /// The text of this field.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{key} is a text in {}", self.0))
    }

    /// The number of this field; the id of a scheduled run is one in a text.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        let value = &self.0[key];
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.unwrap_or_else(|| panic!("{key} is a number in {}", self.0))
    }

    /// The numbers of this field.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn numbers(&self, key: &str) -> Vec<u64> {
        let values = self.0[key].as_array().unwrap_or_else(|| panic!("{key} is a list in {}", self.0));
        values.iter().filter_map(Value::as_u64).collect()
    }

    /// Whether this field, which is yes or no, is yes.
    ///
    /// # Panics
    /// If it is neither.
    #[must_use]
    pub fn is(&self, key: &str) -> bool {
        self.0[key].as_bool().unwrap_or_else(|| panic!("{key} is yes or no in {}", self.0))
    }
}
