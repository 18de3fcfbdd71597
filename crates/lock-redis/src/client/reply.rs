//! Server replies.

use bytes::Bytes;
use std::str;

/// A reply or a part of one.
///
/// RESP2 has no other types. A client that speaks RESP3 translates the types that have an equivalent here. It returns
/// [`CallError::Unreadable`](super::CallError::Unreadable) for all others, which no script returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The null reply.
    Nil,
    /// A number.
    Integer(i64),
    /// A string, simple or bulk.
    Bytes(Bytes),
    /// An array.
    List(Vec<Reply>),
    /// An error inside an array. An error that is the whole reply is a
    /// [`CallError::Refused`](super::CallError::Refused).
    Error(String),
}

impl Reply {
    /// Returns the text, if this is a UTF-8 string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => str::from_utf8(bytes).ok(),
            Self::Nil | Self::Integer(_) | Self::List(_) | Self::Error(_) => None,
        }
    }

    /// Returns the number. Scripts send large numbers as text, because Lua's own formatting would lose digits.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            other => other.text()?.parse().ok(),
        }
    }
}

/// Escapes the characters that do not print: a server must not control the terminal that shows its errors.
pub(crate) fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut printed, c| {
        match c {
            '\\' | '"' | '\'' => printed.push(c),
            c => printed.extend(c.escape_debug()),
        }
        printed
    })
}
