//! A captured chunk, with the connection on which it will be delivered.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

/// The time limit for the server's reply to the last chunk delivered on a connection.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Captured {
    server: TcpStream,
    chunk: Vec<u8>,
}

impl Captured {
    /// Converts to a blocking connection, because the chunk is delivered on the owner's thread.
    pub(super) fn new(server: tokio::net::TcpStream, chunk: Vec<u8>) -> io::Result<Self> {
        let server = server.into_std()?;
        server.set_nonblocking(false)?;
        server.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        server.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { server, chunk })
    }

    /// Delivers the chunk, and returns whether the server replied.
    pub(super) fn deliver(mut self) -> bool {
        let answered = self.server.write_all(&self.chunk).is_ok() && self.reads();
        // The first bytes may be the reply to an earlier request. After the shutdown, the server
        // reads everything before it closes.
        let _ = self.server.shutdown(Shutdown::Write);
        let begin = Instant::now();
        while begin.elapsed() < ANSWER_TIMEOUT && self.reads() {}
        answered
    }

    fn reads(&mut self) -> bool {
        matches!(self.server.read(&mut [0; 1024]), Ok(1..))
    }
}
