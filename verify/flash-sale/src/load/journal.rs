//! The journal, with one line of JSON per order and its outcome from the client's point of view.

use super::Outcome;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};

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
