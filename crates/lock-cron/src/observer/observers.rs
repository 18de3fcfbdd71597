//! The dispatch of events to the log and to observers.

use super::{
    event::{CronEvent, CronObserver},
    trace,
};
use lock_core::__private::notify_all;
use std::sync::Arc;

/// The observers of a scheduler, and its group.
#[derive(Debug, Clone)]
pub(crate) struct Observers {
    group: Arc<str>,
    observers: Arc<[Arc<dyn CronObserver>]>,
}

impl Observers {
    pub(crate) fn new(group: &str, observers: Vec<Arc<dyn CronObserver>>) -> Self {
        Self { group: group.into(), observers: observers.into() }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Builds an event with the group and dispatches it.
    pub(crate) fn notify<'a>(&'a self, make: impl FnOnce(&'a str) -> CronEvent<'a>) {
        let event = make(&self.group);
        notify_all(&self.observers, || trace::event(&event), |observer| observer.on_event(&event));
    }
}
