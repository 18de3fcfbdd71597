//! A proxy's current faults, the events so far and the captured chunks, shared by its owner and its connections.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// The time limit for waiting until cut connections are closed, reached only if a predicate hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit for the server's reply to the last chunk delivered on a connection.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A direction through a [`TcpProxy`](super::TcpProxy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Both directions.
    Both,
}

/// One of the two directions of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

/// A predicate on a chunk.
pub(super) type Predicate = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// All settings of the proxy.
pub(super) struct Switches {
    pub(super) target: SocketAddr,
    pub(super) ended: bool,
    pub(super) refuse: bool,
    /// The number of cuts so far. Each connection stores the number as of its own start.
    pub(super) cuts: u64,
    pub(super) delay: Duration,
    pub(super) lose: Option<Predicate>,
    pub(super) capture: Option<Predicate>,
    stalled: Stalled,
}

#[derive(Default)]
struct Stalled {
    to_server: bool,
    to_client: bool,
}

impl Switches {
    pub(super) fn new(target: SocketAddr) -> Self {
        Self {
            target,
            ended: false,
            refuse: false,
            cuts: 0,
            delay: Duration::ZERO,
            lose: None,
            capture: None,
            stalled: Stalled::default(),
        }
    }

    /// Clears all faults. Cut connections stay cut.
    pub(super) fn pass(&mut self) {
        *self = Self { ended: self.ended, cuts: self.cuts, ..Self::new(self.target) };
    }

    pub(super) fn stall(&mut self, direction: Direction) {
        self.stalled.to_server |= direction != Direction::ToClient;
        self.stalled.to_client |= direction != Direction::ToServer;
    }

    pub(super) fn stalls(&self, way: Way) -> bool {
        match way {
            Way::ToServer => self.stalled.to_server,
            Way::ToClient => self.stalled.to_client,
        }
    }
}

pub(super) struct ProxyControl {
    pub(super) switches: watch::Sender<Switches>,
    ledger: Mutex<Ledger>,
    closed: Condvar,
}

/// Counts of the events so far, and the captured chunks.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) accepted: u64,
    pub(super) lost: u64,
    pub(super) captured: Vec<Captured>,
    /// The number of open connections, by the number of cuts at the time they were opened.
    open: BTreeMap<u64, usize>,
}

impl Ledger {
    pub(super) fn open(&self) -> usize {
        self.open.values().sum()
    }
}

impl ProxyControl {
    pub(super) fn new(target: SocketAddr) -> Self {
        Self {
            switches: watch::Sender::new(Switches::new(target)),
            ledger: Mutex::default(),
            closed: Condvar::new(),
        }
    }

    pub(super) fn switch(&self, f: impl FnOnce(&mut Switches)) {
        self.switches.send_modify(f);
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until all connections opened before the last cut are closed.
    pub(super) fn wait_until_cut(&self) {
        let cuts = self.switches.borrow().cuts;
        let old = |ledger: &mut Ledger| ledger.open.keys().any(|began| *began < cuts);
        drop(self.closed.wait_timeout_while(self.ledger(), PATIENCE, old));
    }

    /// Waits until the predicate holds for the switches.
    pub(super) async fn until(&self, holds: impl FnMut(&Switches) -> bool) {
        // `wait_for` returns a reference that holds a lock, so drop it.
        drop(self.switches.subscribe().wait_for(holds).await);
    }
}

/// An open connection. It is removed from the ledger when dropped.
pub(super) struct Open {
    control: Arc<ProxyControl>,
    cuts: u64,
}

impl Open {
    pub(super) fn new(control: Arc<ProxyControl>, cuts: u64) -> Self {
        let mut ledger = control.ledger();
        ledger.accepted += 1;
        *ledger.open.entry(cuts).or_default() += 1;
        drop(ledger);
        Self { control, cuts }
    }

    /// Waits until the connection has to be closed.
    pub(super) async fn cut(&self) {
        self.control.until(|switches| switches.cuts != self.cuts).await;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut ledger = self.control.ledger();
        if let Some(count) = ledger.open.get_mut(&self.cuts) {
            *count -= 1;
            if *count == 0 {
                ledger.open.remove(&self.cuts);
            }
        }
        drop(ledger);
        self.control.closed.notify_all();
    }
}

/// A captured chunk, with the connection on which it will be delivered.
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
