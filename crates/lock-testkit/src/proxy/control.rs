//! The switches and event counts shared by the proxy's owner and its connections.

use super::{captured::Captured, switches::Switches};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// The time limit for waiting until cut connections are closed, reached only if a predicate hangs.
const PATIENCE: Duration = Duration::from_secs(60);

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
