//! A way between a client and its server that can be cut, jammed, slowed, and robbed.

mod accept;
mod captured;
mod carry;
mod connection;
mod control;
mod switches;

pub use switches::Direction;

use crate::ports;
use control::ProxyControl;
use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::runtime;

/// A TCP proxy on a port of 127.0.0.1. At first it passes everything.
///
/// It accepts a connection before it has one to the server; if there is no server, it closes it again. When one side
/// closes its half, what it sent before is delivered first, with all delays and stalls.
///
/// It runs on a thread and a runtime of its own: a test's paused clock and blocked runtime do not concern it. Faults
/// add up until [`pass`](TcpProxy::pass), hold for present and future connections, and have taken place when their
/// method returns: what is sent afterwards meets them.
///
/// A predicate is given what was read from a client at once, a chunk: usually a request, but several if the client
/// pipelines, or a part of one that is long.
///
/// Dropping it closes everything.
///
/// ```no_run
/// use lock_testkit::{RawRedis, RedisServer, TcpProxy};
///
/// let server = RedisServer::start();
/// let proxy = TcpProxy::start(server.address());
/// let mut client = RawRedis::connect(proxy.address()).unwrap(); // or anything that is given `proxy.url()`
/// proxy.lose_replies(|chunk| chunk.windows(4).any(|word| word == b"INCR"));
/// client.try_command(&["INCR", "a"]).unwrap_err();
/// assert_eq!(server.command(&["GET", "a"]).text(), "1"); // carried out all the same
/// ```
pub struct TcpProxy {
    control: Arc<ProxyControl>,
    port: u16,
    thread: Option<JoinHandle<()>>,
}

impl TcpProxy {
    /// A proxy to this server.
    ///
    /// # Panics
    /// If this machine has no port, thread or runtime for it.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        let listener = ports::listen();
        listener.set_nonblocking(true).expect("a socket can be made not to block");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let control = Arc::new(ProxyControl::new(target));
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        let work = accept::accept(listener, control.clone());
        let thread = thread::Builder::new()
            .name("lock-testkit-proxy".into())
            .spawn(move || runtime.block_on(work))
            .expect("a thread can be made");
        Self { control, port, thread: Some(thread) }
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its address, as `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// New connections go to this server.
    pub fn retarget(&self, target: SocketAddr) {
        self.control.switch(|switches| switches.target = target);
    }

    /// No more faults: what was stalled or delayed is delivered at once, connections are accepted, and predicates
    /// are forgotten. What was [captured](TcpProxy::capture) stays so.
    pub fn pass(&self) {
        self.control.switch(switches::Switches::pass);
    }

    /// Closes all present connections; returns when they are closed. Future ones are not concerned.
    pub fn cut(&self) {
        self.control.switch(|switches| switches.cuts += 1);
        self.control.wait_until_cut();
    }

    /// Closes all present connections, and new ones as soon as they are made, until [`pass`](TcpProxy::pass).
    pub fn refuse(&self) {
        self.control.switch(|switches| switches.refuse = true);
        self.cut();
    }

    /// Keeps what is sent in this direction, also that a side has closed, until [`pass`](TcpProxy::pass).
    /// Connections stay open.
    pub fn stall(&self, direction: Direction) {
        self.control.switch(|switches| switches.stall(direction));
    }

    /// Delivers everything this much later than it was read, in both directions: a long way, not a narrow one.
    pub fn delay(&self, time: Duration) {
        self.control.switch(|switches| switches.delay = time);
    }

    /// A chunk of a client that satisfies this is carried out, but not answered: it is delivered, and as soon as the
    /// server answers, within 1 second, the answer is dropped and the connection closed.
    ///
    /// The answer is taken to be the first bytes that come after the chunk: with answers to earlier requests under
    /// way, one of these. All that was delivered before the close still reaches the server.
    pub fn lose_replies(&self, predicate: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
        self.control.switch(|switches| switches.lose = Some(Arc::new(predicate)));
    }

    /// How many chunks were delivered whose answers were [lost](TcpProxy::lose_replies).
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.control.ledger().lost
    }

    /// A chunk of a client that satisfies this is kept, and the client's connection closed, until it is
    /// [delivered](TcpProxy::deliver_captured): a request that arrives after its client gave up. The connection to
    /// the server stays open for it, also when the proxy is cut.
    pub fn capture(&self, predicate: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
        self.control.switch(|switches| switches.capture = Some(Arc::new(predicate)));
    }

    /// How many chunks are kept.
    #[must_use]
    pub fn captured(&self) -> usize {
        self.control.ledger().captured.len()
    }

    /// Delivers the [captured](TcpProxy::capture) chunks, one after the other, and waits for each answer, at most 1
    /// second. Returns how many were answered.
    pub fn deliver_captured(&self) -> usize {
        let captured = std::mem::take(&mut self.control.ledger().captured);
        captured.into_iter().map(captured::Captured::deliver).filter(|answered| *answered).count()
    }

    /// How many connections of clients are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.control.ledger().open()
    }

    /// How many connections were ever accepted, without the [refused](TcpProxy::refuse) ones.
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
