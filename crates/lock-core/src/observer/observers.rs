//! The dispatch of events to the log and to observers.

use super::{
    digest::{Digest, Sum},
    event::{LockEvent, LockObserver},
    trace::{self, Notable},
};
use crate::{clock::Clock, sync::assert_unlocked, time::Moment};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Logs an event and passes it to each observer. A panic of an observer is caught and ends only that call: it must not
/// affect a release or a renewal.
pub fn notify_all<O: ?Sized>(observers: &[Arc<O>], log: impl FnOnce(), call: impl Fn(&O)) {
    assert_unlocked("an observer");
    drop(catch_unwind(AssertUnwindSafe(log)));
    for observer in observers {
        drop(catch_unwind(AssertUnwindSafe(|| call(observer))));
    }
}

/// The observers of a factory, and the name of its backend.
#[derive(Debug)]
pub(crate) struct Observers {
    observers: Vec<Arc<dyn LockObserver>>,
    backend: &'static str,
    digest: Digest,
}

impl Observers {
    pub(crate) fn new(
        observers: Vec<Arc<dyn LockObserver>>,
        backend: &'static str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { observers, backend, digest: Digest::new(clock) }
    }

    /// Returns the short name of the backend.
    pub(crate) fn backend(&self) -> &'static str {
        self.backend
    }

    /// Builds an event with the name of the backend and dispatches it. Returns the time at which to
    /// [sum up](Self::take_due), if that is new.
    pub(crate) fn notify<'a>(&self, make: impl FnOnce(&'static str) -> LockEvent<'a>) -> Option<Moment> {
        let event = make(self.backend);
        let mut sum_up_at = None;
        let log = || sum_up_at = trace::event(&event, &self.digest);
        notify_all(&self.observers, log, |observer| observer.on_event(&event));
        sum_up_at
    }

    /// Logs a line that is no event for observers. Returns the time at which to sum up, if that is new.
    pub(crate) fn log(&self, notable: &Notable<'_>) -> Option<Moment> {
        let mut sum_up_at = None;
        notify_all::<()>(&[], || sum_up_at = trace::notable(notable, &self.digest), |()| ());
        sum_up_at
    }

    /// Returns the time at which to sum up.
    pub(crate) fn next_sum(&self) -> Option<Moment> {
        self.digest.next()
    }

    /// Returns the warnings to sum up at `now`.
    pub(crate) fn take_due(&self, now: Moment) -> Vec<Sum> {
        self.digest.take_due(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Mutex, lock, rank};

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "an observer is called under the mutex `Entry`"))]
    fn observer_under_a_mutex_panics_in_debug_builds() {
        let entry = Mutex::<rank::Entry, _>::new(());
        let _entry = lock(&entry);
        notify_all::<()>(&[], || (), |()| ());
    }
}
