//! A chunk in hand, with the connection on which it will still arrive.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

/// How long a server may take to answer a chunk that it is sent at the end.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Captured {
    server: TcpStream,
    chunk: Vec<u8>,
}

impl Captured {
    /// A blocking connection from here on: its chunk is delivered on the owner's thread.
    pub(super) fn new(server: tokio::net::TcpStream, chunk: Vec<u8>) -> io::Result<Self> {
        let server = server.into_std()?;
        server.set_nonblocking(false)?;
        server.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        server.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { server, chunk })
    }

    /// Delivers the chunk, and returns whether the server answered.
    pub(super) fn deliver(mut self) -> bool {
        let answered = self.server.write_all(&self.chunk).is_ok() && self.reads();
        // An answer to an earlier request may have come first: with the end announced, the server reads all before.
        let _ = self.server.shutdown(Shutdown::Write);
        let begin = Instant::now();
        while begin.elapsed() < ANSWER_TIMEOUT && self.reads() {}
        answered
    }

    fn reads(&mut self) -> bool {
        matches!(self.server.read(&mut [0; 1024]), Ok(1..))
    }
}
