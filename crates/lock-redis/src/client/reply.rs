//! Replies of servers.

use bytes::Bytes;
use std::str;

/// A reply, or a part of one.
///
/// RESP2 has no other types. A client that speaks RESP3 translates what has an equivalent here, and answers
/// [`CallError::Unreadable`](super::CallError::Unreadable) to the rest: no script returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Integer(i64),
    /// A string, simple or bulk.
    Bytes(Bytes),
    /// An array.
    List(Vec<Reply>),
    /// An error inside of an array. An error that is the whole reply is a
    /// [`CallError::Refused`](super::CallError::Refused).
    Error(String),
}

impl Reply {
    /// The text, if this is a string of UTF-8.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => str::from_utf8(bytes).ok(),
            Self::Nil | Self::Integer(_) | Self::List(_) | Self::Error(_) => None,
        }
    }

    /// The number, which a script also gives as text where it would not survive Lua's formatting.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            other => other.text()?.parse().ok(),
        }
    }
}
