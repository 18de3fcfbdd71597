//! A minimal blocking connection to a server, and RESP2 replies. Client libraries reconnect and retry, which would hide
//! the behaviour under test.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// The time limit for a reply.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// A blocking connection that speaks RESP2. The time limit for a reply is 60 seconds.
#[derive(Debug)]
pub struct RawRedis {
    stream: BufReader<TcpStream>,
}

impl RawRedis {
    /// Connects as the default user, without a password.
    ///
    /// # Errors
    /// Returns an error if no server listens at the address.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::connect_within(address, TIMEOUT)
    }

    pub(super) fn connect_within(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one command, such as `&["SET", "a", "1"]`, and returns the reply.
    ///
    /// # Panics
    /// Panics if there is no reply. An error reply is returned as [`RawValue::Error`].
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> RawValue {
        match self.try_command(words) {
            Ok(answer) => answer,
            Err(error) => {
                let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
                panic!("no reply from redis-server to {words:?}: {error}")
            }
        }
    }

    /// Sends one command and returns the reply.
    ///
    /// # Errors
    /// Returns an error if the command could not be sent or no reply arrived in time. Do not use
    /// the connection afterwards, because the reply may still arrive.
    pub fn try_command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<RawValue> {
        self.send(words)?;
        self.receive()
    }

    /// Sends one command without waiting for the reply. Several calls form a pipeline.
    ///
    /// # Errors
    /// Returns an error if the command could not be sent.
    pub fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend(word);
            request.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)
    }

    /// Receives the next reply, or the next message of a subscription.
    ///
    /// # Errors
    /// Returns an error if none arrives in time.
    pub fn receive(&mut self) -> io::Result<RawValue> {
        RawValue::read(&mut self.stream)
    }
}

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
