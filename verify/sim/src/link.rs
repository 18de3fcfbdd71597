//! A link: the connection of one life of a process to a store, and that process's knowledge of the store.

use crate::clock::ProcessClock;
use lock_core::{
    LockName,
    backend::WakeListener,
    clock::{Clock, Moment, UtcTime},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) process: usize,
    /// The store that it leads to. The links of a life are consecutive, in the order of the stores.
    pub(crate) node: usize,
    pub(crate) clock: Arc<ProcessClock>,
    pub(crate) signals: Option<Weak<dyn WakeListener>>,
    /// `true` once the process was killed: nothing is sent, and nothing arrives.
    pub(crate) dead: bool,
    /// `true` once the process began to shut down.
    pub(crate) closed: bool,
    pub(crate) partition: Option<Partition>,
    /// The number of the connection. Its subscriptions under way end with it.
    pub(crate) connection: u64,
    /// Keeps subscriptions in order.
    pub(crate) in_order: u64,
    /// The names that this process subscribed to. They are subscribed to again on every new connection.
    pub(crate) wanted: BTreeSet<LockName>,
    /// The time of the latest connection.
    pub(crate) since: u64,
    /// The number of messages about leases that are under way in either direction.
    pub(crate) under_way: u64,
    /// The latest server time that it received, and the reading of its own clock at that moment.
    heard: Option<(UtcTime, Moment)>,
}

/// A process that cannot reach the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partition {
    pub(crate) until: u64,
    pub(crate) how: Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The process knows: requests fail immediately and certainly.
    Known,
    /// Messages are lost.
    Vanish,
    /// Messages wait until the partition ends.
    Wait,
}

impl Link {
    pub(crate) fn new(process: usize, node: usize, clock: Arc<ProcessClock>) -> Self {
        Self {
            process,
            node,
            clock,
            signals: None,
            dead: false,
            closed: false,
            partition: None,
            connection: 0,
            in_order: 0,
            wanted: BTreeSet::new(),
            since: 0,
            under_way: 0,
            heard: None,
        }
    }

    pub(crate) fn hear(&mut self, now: UtcTime) {
        self.heard = Some((now, self.clock.now()));
    }

    /// Returns this process's estimate of the store's clock.
    pub(crate) fn estimate(&self) -> Option<UtcTime> {
        self.heard.map(|(server, at)| server + self.clock.now().since(at))
    }
}
