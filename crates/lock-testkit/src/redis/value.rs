//! RESP2 replies.

use std::io::{self, BufRead, Read};

/// A server's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawValue {
    /// The null string or the null list.
    Nil,
    /// A number.
    Integer(i64),
    /// A simple or a bulk string. Invalid UTF-8 is replaced.
    Text(String),
    /// A list of replies.
    List(Vec<RawValue>),
    /// An error reply.
    Error(String),
}

impl RawValue {
    /// Returns the text.
    ///
    /// # Panics
    /// Panics if the reply is not text.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("expected a text reply, got {other:?}"),
        }
    }

    /// Returns the number.
    ///
    /// # Panics
    /// Panics if the reply is not a number.
    #[must_use]
    #[track_caller]
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("expected an integer reply, got {other:?}"),
        }
    }

    /// Returns the list.
    ///
    /// # Panics
    /// Panics if the reply is not a list.
    #[must_use]
    #[track_caller]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            other => panic!("expected a list reply, got {other:?}"),
        }
    }

    /// Returns whether the reply is null.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Returns whether the reply is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Reads one reply.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let head = head(from)?;
        let (kind, rest) = head.split_at_checked(1).ok_or_else(|| odd(&head))?;
        let number = || rest.parse::<i64>().map_err(|_| odd(&head));
        Ok(match kind {
            "+" => Self::Text(rest.to_owned()),
            "-" => Self::Error(rest.to_owned()),
            ":" => Self::Integer(number()?),
            "$" => match usize::try_from(number()?) {
                Ok(length) => Self::Text(bulk(from, length)?),
                Err(_) => Self::Nil,
            },
            "*" => match usize::try_from(number()?) {
                Ok(length) => Self::List((0..length).map(|_| Self::read(from)).collect::<io::Result<_>>()?),
                Err(_) => Self::Nil,
            },
            _ => return Err(odd(&head)),
        })
    }
}

/// Reads a line without the line ending.
fn head(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
    }
}

fn bulk(from: &mut impl Read, length: usize) -> io::Result<String> {
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn odd(head: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("`{head}` is not the start of a reply"))
}
