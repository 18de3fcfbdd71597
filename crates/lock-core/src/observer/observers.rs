//! The dispatch of events to the log and to observers.

use super::{
    event::{LockEvent, LockObserver},
    trace,
};
use crate::sync::assert_unlocked;
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
}

impl Observers {
    pub(crate) fn new(observers: Vec<Arc<dyn LockObserver>>, backend: &'static str) -> Self {
        Self { observers, backend }
    }

    /// Returns the short name of the backend.
    pub(crate) fn backend(&self) -> &'static str {
        self.backend
    }

    /// Builds an event with the name of the backend and dispatches it.
    pub(crate) fn notify<'a>(&self, make: impl FnOnce(&'static str) -> LockEvent<'a>) {
        let event = make(self.backend);
        notify_all(&self.observers, || trace::event(&event), |observer| observer.on_event(&event));
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
