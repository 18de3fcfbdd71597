//! A minimal blocking connection to a server. Client libraries reconnect and retry, which would
//! hide the behaviour under test.

use super::RawValue;
use std::{
    io::{self, BufReader, Write},
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
