//! A link: the way of one life of a process to a store, and what that process knows of the store.

use crate::clock::ProcessClock;
use lock_core::{
    LockName,
    backend::WakeListener,
    clock::{Clock, Moment, ServerTime},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) process: usize,
    /// The store that it leads to. The links of a life follow one another, in the order of the stores.
    pub(crate) node: usize,
    pub(crate) clock: Arc<ProcessClock>,
    pub(crate) signals: Option<Weak<dyn WakeListener>>,
    /// The process was killed: nothing is sent and nothing arrives.
    pub(crate) dead: bool,
    /// The process was told to shut down.
    pub(crate) closed: bool,
    pub(crate) partition: Option<Partition>,
    /// Subscriptions are of one connection: those that are under way end with it.
    pub(crate) connection: u64,
    /// Subscriptions travel in order.
    pub(crate) in_order: u64,
    /// What this process wants to hear of; subscribed anew with every connection.
    pub(crate) wanted: BTreeSet<LockName>,
    /// When it was last made anew.
    pub(crate) since: u64,
    /// Messages about leases that are under way to the store, or back.
    pub(crate) under_way: u64,
    /// The store's clock and this process's when it was heard of last.
    heard: Option<(ServerTime, Moment)>,
}

/// A process that cannot reach the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partition {
    pub(crate) until: u64,
    pub(crate) how: Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The process knows: it fails at once and with certainty.
    Known,
    /// Messages vanish.
    Vanish,
    /// Messages wait until the end of it.
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

    pub(crate) fn hear(&mut self, now: ServerTime) {
        self.heard = Some((now, self.clock.now()));
    }

    /// What this process takes for the store's clock.
    pub(crate) fn estimate(&self) -> Option<ServerTime> {
        self.heard.map(|(server, at)| server + self.clock.now().since(at))
    }
}
