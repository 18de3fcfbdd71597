//! A proxy between a client and its server that can cut, stall and delay connections, and drop replies.

mod connection;
mod control;

pub use control::Direction;

use crate::process;
use connection::accept;
use control::{Captured, ProxyControl, Switches};
use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::runtime;

/// A TCP proxy on a port of 127.0.0.1. Initially, it passes everything.
///
/// The proxy accepts a connection before it connects to the server, and closes it if the server is
/// not reachable. When one side closes its half, the bytes it sent earlier are delivered first,
/// with all delays and stalls.
///
/// The proxy runs on its own thread and runtime, unaffected by a test's paused clock or blocked
/// runtime. Faults accumulate until [`pass`](TcpProxy::pass) and apply to current and future
/// connections. A fault applies to everything sent after its method has returned.
///
/// A predicate receives a chunk, which contains the bytes of one read from a client. A chunk is
/// usually one request, but can be several if the client pipelines, or part of a long one.
///
/// Dropping the proxy closes all connections.
///
/// ```no_run
/// use lock_testkit::{RawRedis, RedisServer, TcpProxy};
///
/// let server = RedisServer::start();
/// let proxy = TcpProxy::start(server.address());
/// let mut client = RawRedis::connect(proxy.address()).unwrap(); // or any client with `proxy.url()`
/// proxy.lose_replies(|chunk| chunk.windows(4).any(|word| word == b"INCR"));
/// client.try_command(&["INCR", "a"]).unwrap_err();
/// assert_eq!(server.command(&["GET", "a"]).text(), "1"); // executed nevertheless
/// ```
pub struct TcpProxy {
    control: Arc<ProxyControl>,
    port: u16,
    thread: Option<JoinHandle<()>>,
}

impl TcpProxy {
    /// Starts a proxy to this server.
    ///
    /// # Panics
    /// Panics if there is no free port, or if the thread or runtime cannot be started.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        let listener = process::listen();
        listener.set_nonblocking(true).expect("failed to make the listener non-blocking");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let control = Arc::new(ProxyControl::new(target));
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().expect("failed to build the runtime");
        let work = accept(listener, control.clone());
        let thread = thread::Builder::new()
            .name("lock-testkit-proxy".into())
            .spawn(move || runtime.block_on(work))
            .expect("failed to spawn the thread");
        Self { control, port, thread: Some(thread) }
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the proxy's URL, `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Sends new connections to this server.
    pub fn retarget(&self, target: SocketAddr) {
        self.control.switch(|switches| switches.target = target);
    }

    /// Ends all faults: stalled and delayed bytes are delivered immediately, connections are accepted, and predicates
    /// are removed. [Captured](TcpProxy::capture) chunks stay captured.
    pub fn pass(&self) {
        self.control.switch(Switches::pass);
    }

    /// Closes all current connections and returns once they are closed. New connections are not affected.
    pub fn cut(&self) {
        self.control.switch(|switches| switches.cuts += 1);
        self.control.wait_until_cut();
    }

    /// Closes all current connections, and new ones as soon as they are opened, until [`pass`](TcpProxy::pass).
    pub fn refuse(&self) {
        self.control.switch(|switches| switches.refuse = true);
        self.cut();
    }

    /// Holds back bytes in this direction until [`pass`](TcpProxy::pass), including the end of the stream.
    /// Connections stay open.
    pub fn stall(&self, direction: Direction) {
        self.control.switch(|switches| switches.stall(direction));
    }

    /// Delays everything in both directions. This adds latency and does not limit throughput.
    pub fn delay(&self, time: Duration) {
        self.control.switch(|switches| switches.delay = time);
    }

    /// Drops the replies to matching client chunks. A chunk is delivered; as soon as the server
    /// replies, or after 1 second, the reply is dropped and the connection is closed.
    ///
    /// The first bytes received after the chunk count as the reply, even if they are the reply to an
    /// earlier request. Everything delivered before the close still reaches
    /// the server.
    pub fn lose_replies(&self, predicate: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
        self.control.switch(|switches| switches.lose = Some(Arc::new(predicate)));
    }

    /// Returns the number of delivered chunks whose replies were [lost](TcpProxy::lose_replies).
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.control.ledger().lost
    }

    /// Keeps matching client chunks and closes the client's connection.
    /// [`deliver_captured`](TcpProxy::deliver_captured) sends the chunks later, as requests that
    /// arrive after their clients gave up. The connection to the server stays open for them, even
    /// when the proxy is cut.
    pub fn capture(&self, predicate: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
        self.control.switch(|switches| switches.capture = Some(Arc::new(predicate)));
    }

    /// Returns the number of captured chunks.
    #[must_use]
    pub fn captured(&self) -> usize {
        self.control.ledger().captured.len()
    }

    /// Delivers the [captured](TcpProxy::capture) chunks one after the other, and waits up to 1
    /// second for each reply. Returns the number of replies.
    pub fn deliver_captured(&self) -> usize {
        let captured = std::mem::take(&mut self.control.ledger().captured);
        captured.into_iter().map(Captured::deliver).filter(|answered| *answered).count()
    }

    /// Returns the number of open client connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.control.ledger().open()
    }

    /// Returns the number of connections accepted so far, not counting [refused](TcpProxy::refuse) ones.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.control.ledger().accepted
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.control.switch(|switches| switches.ended = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for TcpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpProxy")
            .field("address", &self.address())
            .field("connections", &self.connections())
            .field("captured", &self.captured())
            .finish_non_exhaustive()
    }
}
