//! Substrings with their positions, so that errors can point at them.

use super::error::{Problem, ScheduleErrorKind};

/// A part of a string, and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Token<'a> {
    pub(crate) fn problem(self, kind: ScheduleErrorKind, what: &str, but: impl Into<String>) -> Problem {
        let what = format!("{what} `{}`", self.text);
        Problem::new(kind, self.at..self.at + self.text.len(), what, but)
    }

    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        let (left, right) = self.text.split_at(at);
        (Self { text: left, at: self.at }, Self { text: right, at: self.at + at })
    }

    /// Splits at the first `mark`, a one-byte character, and drops the mark.
    pub(crate) fn cut(self, mark: char) -> Option<(Self, Self)> {
        let (left, right) = self.split_at(self.text.find(mark)?);
        Some((left, right.split_at(1).1))
    }

    pub(crate) fn pieces(self, mark: char) -> impl Iterator<Item = Self> {
        let mut at = self.at;
        self.text.split(mark).map(move |text| {
            let piece = Self { text, at };
            at += text.len() + 1;
            piece
        })
    }

    pub(crate) fn is(self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn number(self) -> Option<u16> {
        let digits = !self.text.is_empty() && self.text.bytes().all(|b| b.is_ascii_digit());
        // A number with too many digits counts as the largest one, which is out of every range.
        digits.then(|| self.text.parse().unwrap_or(u16::MAX))
    }
}

pub(crate) fn trim(token: Token<'_>) -> Token<'_> {
    let start = token.text.len() - token.text.trim_start().len();
    let token = token.split_at(start).1;
    token.split_at(token.text.trim_end().len()).0
}

/// Splits off the first word and the whitespace after it.
pub(crate) fn word(token: Token<'_>) -> (Token<'_>, Token<'_>) {
    let end = token.text.find(char::is_whitespace).unwrap_or(token.text.len());
    let (word, rest) = token.split_at(end);
    (word, trim(rest))
}
