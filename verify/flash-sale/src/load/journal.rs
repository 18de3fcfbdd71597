//! The outcome of an order from the client's point of view, and the journal, with one line of JSON per order.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};

/// The outcome of an order from the client's point of view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The shop confirmed the order, which must be written.
    Acknowledged {
        /// Fencing token of the hold that sold the order; `None` without a lock.
        token: Option<i64>,
    },
    /// The shop refused the order for good. It must not be written.
    Refused {
        /// Last segment of the problem type.
        reason: String,
    },
    /// The outcome is unknown to the client. The order may or may not be written, now or later.
    Unknown {
        /// Last segment of the problem type, or a description of the connection failure.
        reason: String,
        /// Token of a stale holder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<i64>,
        /// Newer token that caused the refusal of a stale holder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        newer: Option<i64>,
    },
}

/// The relevant members of an order's response or of a problem document.
#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(default, rename = "type")]
    kind: String,
    token: Option<i64>,
    newer: Option<i64>,
}

impl Outcome {
    /// Reason of a stale holder: a newer one had already read the stock. The next request with the key, or a job, decides
    /// about the order.
    pub const STALE: &str = "stale-holder";
    /// Reason for a refused order: too few units are left.
    pub const SOLD_OUT: &str = "sold-out";

    /// Returns the outcome of a response.
    #[must_use]
    pub fn of(status: StatusCode, body: &[u8]) -> Self {
        let body: Body = serde_json::from_slice(body).unwrap_or_default();
        if status.is_success() {
            return Self::Acknowledged { token: body.token };
        }
        let word = body.kind.rsplit([':', '/']).next().unwrap_or_default();
        let reason = if word.is_empty() { status.as_str() } else { word }.to_owned();
        // These refusals come from the layers in front of the handler: nothing was done. After any other 5xx the order may be
        // written, or a job may write it later.
        let before_handler = [
            "timeout",
            "contended",
            "overloaded",
            "backend_error",
            "lost_before_work",
            "shut_down",
            "records_unavailable",
            "no-server",
        ];
        let is_unknown = match status {
            // Another attempt with this key is still in progress.
            StatusCode::CONFLICT => matches!(word, "contended" | "timeout"),
            status => status.is_server_error() && !before_handler.contains(&word),
        };
        match is_unknown {
            true => Self::Unknown { reason, token: body.token, newer: body.newer },
            false => Self::Refused { reason },
        }
    }

    /// Returns an outcome that is unknown for this reason.
    #[must_use]
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), token: None, newer: None }
    }

    /// Returns the outcome of an order, given that an earlier attempt got no response. A refusal is
    /// then inconclusive, because the earlier attempt may still be executed.
    #[must_use]
    pub(super) fn after_unknown(self) -> Self {
        match self {
            Self::Refused { reason } => Self::unknown(format!("earlier attempt, then {reason}")),
            outcome => outcome,
        }
    }

    /// Returns a short description of the outcome, with the reason if there is one.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Acknowledged { .. } => "acknowledged".into(),
            Self::Refused { reason } => format!("refused: {reason}"),
            Self::Unknown { reason, .. } => format!("unknown: {reason}"),
        }
    }
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Value of the `Idempotency-Key` header.
    pub key: String,
    /// Product code.
    pub sku: String,
    /// Number of units.
    pub quantity: u32,
    /// Outcome of the order.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Value of the last response's `x-shop` header: name and process id of the shop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Intended start, in microseconds after the start of the run.
    pub start_us: u64,
    /// Time from the intended start to the end, in microseconds.
    pub latency_us: u64,
    /// Number of times the request was sent.
    pub attempts: u32,
}

impl Entry {
    /// Returns the end, in microseconds after the start of the run.
    #[must_use]
    pub fn end_us(&self) -> u64 {
        self.start_us + self.latency_us
    }
}

/// A journal being written. Dropping it flushes it.
#[derive(Debug)]
pub struct Journal {
    file: BufWriter<File>,
}

impl Journal {
    /// Creates the file, or truncates an existing one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(File::create(path)?) })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// Returns an error if the line cannot be written.
    pub fn record(&mut self, entry: &Entry) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, entry)?;
        self.file.write_all(b"\n")
    }

    /// Flushes all lines to the file.
    ///
    /// # Errors
    /// Returns an error if the lines cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads a journal.
///
/// # Errors
/// Returns [`JournalError`] if the file cannot be read or a line is invalid.
pub fn read(path: &Path) -> Result<Vec<Entry>, JournalError> {
    let lines = File::open(path).map(|file| BufReader::new(file).lines());
    let mut entries = Vec::new();
    for (index, line) in lines.map_err(JournalError::Read)?.enumerate() {
        let line = line.map_err(JournalError::Read)?;
        let parsed = serde_json::from_str(&line);
        entries.push(parsed.map_err(|source| JournalError::Line { line: index + 1, source })?);
    }
    Ok(entries)
}

/// An error while reading a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file could not be read.
    #[error("could not read the journal")]
    Read(#[source] io::Error),
    /// A line is not a valid entry.
    #[error("invalid line {line} in the journal: pass a file written by `load`")]
    Line {
        /// Line number, starting at 1.
        line: usize,
        /// Underlying error.
        source: serde_json::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Outcome {
        Outcome::of(StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    fn refused(reason: &str) -> Outcome {
        Outcome::Refused { reason: reason.into() }
    }

    #[test]
    fn confirmed_order_is_acknowledged_with_its_token() {
        let body = r#"{"order":"load/k","sku":"A-1","quantity":1,"token":7}"#;
        assert_eq!(of(201, body), Outcome::Acknowledged { token: Some(7) });
        assert_eq!(of(200, r#"{"order":"load/k","token":null}"#), Outcome::Acknowledged { token: None });
    }

    #[test]
    fn refusal_contains_its_reason() {
        assert_eq!(of(409, r#"{"type":"urn:problem-type:shop:sold-out"}"#), refused("sold-out"));
        assert_eq!(of(503, r#"{"type":"urn:problem-type:distlock:timeout"}"#), refused("timeout"));
        assert_eq!(of(422, ""), refused("422"));
    }

    #[test]
    fn order_of_a_stale_holder_is_unknown_with_both_tokens() {
        let body = r#"{"type":"urn:problem-type:shop:stale-holder","token":7,"newer":9}"#;
        let expected = Outcome::Unknown { reason: Outcome::STALE.into(), token: Some(7), newer: Some(9) };
        assert_eq!(of(503, body), expected);
    }

    #[test]
    fn inconclusive_response_is_unknown() {
        assert_eq!(
            of(502, r#"{"type":"urn:problem-type:shop:bad-gateway"}"#),
            Outcome::unknown("bad-gateway")
        );
        assert_eq!(of(503, r#"{"type":"urn:problem-type:distlock:lost"}"#), Outcome::unknown("lost"));
        assert_eq!(of(503, r#"{"type":"urn:problem-type:shop:database"}"#), Outcome::unknown("database"));
        assert_eq!(of(503, "busy"), Outcome::unknown("503"));
        assert_eq!(of(500, ""), Outcome::unknown("500"));
        assert_eq!(of(409, r#"{"type":"urn:problem-type:distlock:timeout"}"#), Outcome::unknown("timeout"));
    }

    #[test]
    fn refusal_after_an_unanswered_attempt_is_unknown() {
        assert_eq!(refused("sold-out").after_unknown(), Outcome::unknown("earlier attempt, then sold-out"));
        let acknowledged = Outcome::Acknowledged { token: None };
        assert_eq!(acknowledged.clone().after_unknown(), acknowledged);
    }

    #[test]
    fn written_entries_are_read_back() {
        let outcomes = [
            Outcome::Acknowledged { token: Some(3) },
            Outcome::Acknowledged { token: None },
            Outcome::Unknown { reason: Outcome::STALE.into(), token: Some(3), newer: Some(4) },
            Outcome::Refused { reason: Outcome::SOLD_OUT.into() },
        ];
        let entry = |outcome| Entry {
            key: "s0-1".into(),
            sku: "A-1".into(),
            quantity: 2,
            outcome,
            server: Some("shop-1/17".into()),
            start_us: 1_000,
            latency_us: 250,
            attempts: 1,
        };
        let entries: Vec<_> = outcomes.into_iter().map(entry).collect();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        entries.iter().for_each(|entry| journal.record(entry).unwrap());
        drop(journal);
        assert_eq!(read(&path).unwrap(), entries);
    }

    #[test]
    fn invalid_line_is_reported_by_number() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        std::fs::write(&path, "{}\n").unwrap();
        assert_eq!(
            read(&path).unwrap_err().to_string(),
            "invalid line 1 in the journal: pass a file written by `load`"
        );
    }
}
