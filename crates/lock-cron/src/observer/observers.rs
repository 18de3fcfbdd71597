//! How the events of a scheduler reach its log and its observers.

use super::{
    event::{CronEvent, CronObserver},
    trace,
};
use lock_core::__private::catch_panic;
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

    /// Notifies of an event that `make` makes with the group.
    pub(crate) fn notify<'a>(&'a self, make: impl FnOnce(&'a str) -> CronEvent<'a>) {
        let event = make(&self.group);
        catch_panic(|| trace::event(&event));
        for observer in self.observers.iter() {
            catch_panic(|| observer.on_event(&event));
        }
    }
}
