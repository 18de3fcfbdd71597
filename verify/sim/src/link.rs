//! A link: the connection of one life of a process to a store, and what that process knows about the store.

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
    /// The store to which it leads. The links of a life are consecutive, in the order of the stores.
    pub(crate) node: usize,
    pub(crate) clock: Arc<ProcessClock>,
    pub(crate) signals: Option<Weak<dyn WakeListener>>,
    /// `true` once the process has been killed: nothing is sent, and nothing arrives.
    pub(crate) dead: bool,
    /// `true` if the process was copied: its id does not tell whose a lease is.
    pub(crate) copied: bool,
    /// `true` once the process has begun to shut down.
    pub(crate) closed: bool,
    pub(crate) partition: Option<Partition>,
    /// The number of the connection. Subscriptions under way end with it.
    pub(crate) connection: u64,
    /// Keeps subscriptions in order.
    pub(crate) in_order: u64,
    /// The names to which this process is subscribed. They are subscribed to again on every new connection.
    pub(crate) wanted: BTreeSet<LockName>,
    /// The time of the latest connection.
    pub(crate) since: u64,
    /// The number of messages about leases that are under way in either direction.
    pub(crate) under_way: u64,
    /// The latest server time received, and the reading of the process's clock at that moment.
    heard: Option<(UtcTime, Moment)>,
}

/// The isolation of a process from the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partition {
    pub(crate) until: u64,
    pub(crate) how: Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The process knows it: requests fail immediately, as not applied.
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
            copied: false,
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
