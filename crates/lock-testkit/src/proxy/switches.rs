//! A proxy's current faults.

use std::{net::SocketAddr, sync::Arc, time::Duration};

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
