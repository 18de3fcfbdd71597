//! The lines that a process says: a word, and `key=value` after it.

use std::{
    fmt::Display,
    time::{SystemTime, UNIX_EPOCH},
};

/// Says a line, at once.
pub fn say(line: impl Display) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    // Whoever listened is gone: the end of stdin comes as well.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The wall clock, in microseconds since the epoch: all processes of one machine have the same.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// A line that was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(String);

impl Line {
    /// This text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// All of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Its first word.
    #[must_use]
    pub fn word(&self) -> &str {
        self.at(0)
    }

    /// The word at this place, or nothing.
    #[must_use]
    pub fn at(&self, place: usize) -> &str {
        self.0.split(' ').nth(place).unwrap_or_default()
    }

    /// The number after `key=`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        let value = self.0.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let value = value.unwrap_or_else(|| panic!("{:?} has {key}", self.0));
        value.parse().unwrap_or_else(|_| panic!("{key} is a number in {:?}", self.0))
    }
}
