//! The traits through which the suite creates stores and advances time.

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

/// Gives the suite access to a backend. One value is created per test, inside the test's runtime.
pub trait Harness: Send + Sync {
    /// Returns a client for a store. Tests can share a store, because their lock names do not
    /// collide.
    fn store(&self) -> impl Future<Output = Store> + Send;

    /// Returns another client for the store behind `of`, as another process would have. Returns the
    /// same client if the store supports only one.
    fn another(&self, of: &Store) -> impl Future<Output = Store> + Send {
        let again = of.clone();
        async move { again }
    }

    /// Returns the clock for a test's factories. With paused time, the clock must follow tokio's
    /// time.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock::new())
    }

    /// Returns a name that contains `hint` and that no other test in this or any other run uses.
    fn name(&self, hint: &str) -> LockName {
        fresh_name(hint)
    }

    /// Returns `true` if each release wakes waiters, because they watch the record that it deletes. The property of silent
    /// releases is skipped then, and its test says so.
    fn wakes_by_deleting(&self) -> bool {
        false
    }

    /// Waits for `duration` by tokio's clock. While that clock is paused, the wait ends immediately, so
    /// a test of a store that uses real time must not pause it.
    fn pass(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

/// Gives the ledger suite access to a run ledger. One value is created per test, inside the test's
/// runtime.
pub trait LedgerHarness: Send + Sync {
    /// Returns a client for a ledger. Tests can share a ledger, because their groups do not
    /// collide.
    fn ledger(&self) -> impl Future<Output = Arc<dyn RunLedger>> + Send;

    /// Returns another client for the ledger behind `of`, as another process would have. Returns the
    /// same client if the ledger supports only one.
    fn another_ledger(&self, of: &Arc<dyn RunLedger>) -> impl Future<Output = Arc<dyn RunLedger>> + Send {
        let again = of.clone();
        async move { again }
    }

    /// Waits for `duration`, like [`Harness::pass`].
    fn pass(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

/// Returns a name that no other test in this or any other run uses.
pub(super) fn fresh_name(hint: &str) -> LockName {
    static RUN: OnceLock<ProcessId> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let run = RUN.get_or_init(ProcessId::random);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    LockName::new(format!("conformance:{run}:{number}:{hint}")).expect("the hint forms a valid name")
}
