//! The interface of the suite to a backend: creating stores and letting time pass.

use lock_core::{
    LockName, Store,
    backend::ProcessId,
    clock::{BootClock, Clock},
};
use lock_ledger::RunLedger;
use std::{
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Access to a backend for the suite. One value is created per test, inside the test's runtime.
pub trait Harness: Send + Sync {
    /// Returns a client of a store. Expensive stores may be shared by all tests, because their names do not collide.
    fn store(&self) -> impl Future<Output = Store> + Send;

    /// Returns another client of the store behind `of`, as another process would have one. Returns the same client if
    /// there is no such thing.
    fn another(&self, of: &Store) -> impl Future<Output = Store> + Send {
        let again = of.clone();
        async move { again }
    }

    /// Returns the clock for the factories of a test. With paused time it has to follow that time.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock::new())
    }

    /// Returns a name that no other test of this or any other run uses. It contains `hint`.
    fn name(&self, hint: &str) -> LockName {
        fresh_name(hint)
    }

    /// Lets time pass. A store that runs on real time needs real time; with tokio's paused time this returns
    /// immediately.
    fn pass(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

/// Access to a run ledger for the second suite. One value is created per test, inside the test's runtime.
pub trait LedgerHarness: Send + Sync {
    /// Returns a client of a ledger. Expensive ledgers may be shared by all tests, because their groups do not
    /// collide.
    fn ledger(&self) -> impl Future<Output = Arc<dyn RunLedger>> + Send;

    /// Returns another client of the ledger behind `of`, as another process would have one. Returns the same client
    /// if there is no such thing.
    fn another_ledger(&self, of: &Arc<dyn RunLedger>) -> impl Future<Output = Arc<dyn RunLedger>> + Send {
        let again = of.clone();
        async move { again }
    }

    /// Lets time pass, as [`Harness::pass`] does.
    fn pass(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

/// Returns a name that no other test of this or any other run uses.
pub(super) fn fresh_name(hint: &str) -> LockName {
    static RUN: OnceLock<ProcessId> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let run = RUN.get_or_init(ProcessId::random);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    LockName::new(format!("conformance:{run}:{number}:{hint}")).expect("hints of the suite make valid names")
}
