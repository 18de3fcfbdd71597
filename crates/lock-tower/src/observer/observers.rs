//! How the events of a request reach the observers of its layer.

use super::event::{LayerEvent, LayerObserver};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// The observers of a layer, and the route that they are told of.
#[derive(Debug, Clone)]
pub(crate) struct Observers {
    pub(crate) observers: Arc<[Arc<dyn LayerObserver>]>,
    pub(crate) route: Option<Arc<str>>,
}

impl Observers {
    pub(crate) fn notify(&self, event: &LayerEvent<'_>) {
        for observer in self.observers.iter() {
            // A panic of an exporter must not take a release with it.
            drop(catch_unwind(AssertUnwindSafe(|| observer.observe(self.route.as_ref(), event))));
        }
    }
}
