//! What a server answers, as RESP2 has it.

use std::io::{self, BufRead, Read};

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawValue {
    /// Nothing, be it no text or no list.
    Nil,
    /// A number.
    Integer(i64),
    /// A simple or a bulk string; what is not UTF-8 in it is replaced.
    Text(String),
    /// Several answers.
    List(Vec<RawValue>),
    /// An error of one command.
    Error(String),
}

impl RawValue {
    /// The text.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("the answer is not a text but {other:?}"),
        }
    }

    /// The number.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    #[track_caller]
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("the answer is not a number but {other:?}"),
        }
    }

    /// The answers in it.
    ///
    /// # Panics
    /// If it is no list.
    #[must_use]
    #[track_caller]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            other => panic!("the answer is not a list but {other:?}"),
        }
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Whether it is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Reads one answer.
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

/// A line without its end.
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
    io::Error::new(io::ErrorKind::InvalidData, format!("`{head}` does not begin an answer"))
}
