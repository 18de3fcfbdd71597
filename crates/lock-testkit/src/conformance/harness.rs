//! What a backend tells the suite about itself: how to make a store, and how time passes.

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

/// How the suite gets at a backend. One value is made per test, inside the test's runtime.
pub trait Harness: Send + Sync {
    /// A client of a store. Stores that cost much may be shared by all tests: their names do not meet.
    fn store(&self) -> impl Future<Output = Store> + Send;

    /// Another client of the store that `of` talks to, as another process would have one. Where there is no
    /// such thing, the same client again.
    fn another(&self, of: &Store) -> impl Future<Output = Store> + Send {
        let again = of.clone();
        async move { again }
    }

    /// The clock of the factories that a test makes; with paused time one that follows it.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock::new())
    }

    /// A name that no other test of this or any other run uses, with `hint` in it.
    fn name(&self, hint: &str) -> LockName {
        fresh_name(hint)
    }

    /// Lets time pass. A store that runs on real time needs real time; with tokio's paused time this returns at
    /// once.
    fn pass(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

/// How the second suite gets at a run ledger. One value is made per test, inside the test's runtime.
pub trait LedgerHarness: Send + Sync {
    /// A client of a ledger. Ledgers that cost much may be shared by all tests: their groups do not meet.
    fn ledger(&self) -> impl Future<Output = Arc<dyn RunLedger>> + Send;

    /// Another client of the ledger that `of` talks to, as another process would have one. Where there is no such thing,
    /// the same client again.
    fn another_ledger(&self, of: &Arc<dyn RunLedger>) -> impl Future<Output = Arc<dyn RunLedger>> + Send {
        let again = of.clone();
        async move { again }
    }

    /// Lets time pass, as [`Harness::pass`] does.
    fn pass(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

/// A name that no other test of this or any other run uses.
pub(super) fn fresh_name(hint: &str) -> LockName {
    static RUN: OnceLock<ProcessId> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let run = RUN.get_or_init(ProcessId::random);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    LockName::new(format!("conformance:{run}:{number}:{hint}")).expect("hints of the suite make valid names")
}
