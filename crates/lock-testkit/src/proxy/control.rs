//! What the proxy's owner and its connections share: the switches, and the ledger of what happened.

use super::{captured::Captured, switches::Switches};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// How long the owner waits for cut connections. It takes no time, unless a predicate hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct ProxyControl {
    pub(super) switches: watch::Sender<Switches>,
    ledger: Mutex<Ledger>,
    closed: Condvar,
}

/// What happened until now.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) accepted: u64,
    pub(super) lost: u64,
    pub(super) captured: Vec<Captured>,
    /// How many connections are open, by the number of cuts there had been when they began.
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

    /// Blocks until the connections are closed that began before the last cut.
    pub(super) fn wait_until_cut(&self) {
        let cuts = self.switches.borrow().cuts;
        let old = |ledger: &mut Ledger| ledger.open.keys().any(|began| *began < cuts);
        drop(self.closed.wait_timeout_while(self.ledger(), PATIENCE, old));
    }

    /// Returns when this holds of the switches.
    pub(super) async fn until(&self, holds: impl FnMut(&Switches) -> bool) {
        // The reference that `wait_for` returns holds a lock: it is not for keeping.
        drop(self.switches.subscribe().wait_for(holds).await);
    }
}

/// An open connection in the ledger, until it is dropped.
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

    /// Returns when it is to be closed.
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
