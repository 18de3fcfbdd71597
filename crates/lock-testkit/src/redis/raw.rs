//! A minimal blocking connection to a server. It is our own because client libraries reconnect and retry, which would
//! hide what a test examines.

use super::RawValue;
use std::{
    io::{self, BufReader, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// The time limit of an answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// A blocking connection that speaks RESP2. The time limit of an answer is 60 seconds.
#[derive(Debug)]
pub struct RawRedis {
    stream: BufReader<TcpStream>,
}

impl RawRedis {
    /// Connects as the default user, without a password.
    ///
    /// # Errors
    /// If there is no server at the address.
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

    /// Sends one command, such as `&["SET", "a", "1"]`, and returns its answer.
    ///
    /// # Panics
    /// Panics if there is no answer. An error of the command itself is a [`RawValue::Error`].
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> RawValue {
        match self.try_command(words) {
            Ok(answer) => answer,
            Err(error) => {
                let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
                panic!("redis-server did not answer {words:?}: {error}")
            }
        }
    }

    /// Sends one command and returns its answer.
    ///
    /// # Errors
    /// If it could not be sent, or was not answered in time. The connection must not be used after that, since the
    /// answer may still arrive.
    pub fn try_command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<RawValue> {
        self.send(words)?;
        self.receive()
    }

    /// Sends one command without waiting for the answer. Several of them form a pipeline.
    ///
    /// # Errors
    /// If it could not be sent.
    pub fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend(word);
            request.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)
    }

    /// Receives the next answer, or the next message of a subscription.
    ///
    /// # Errors
    /// If none arrives in time.
    pub fn receive(&mut self) -> io::Result<RawValue> {
        RawValue::read(&mut self.stream)
    }
}
