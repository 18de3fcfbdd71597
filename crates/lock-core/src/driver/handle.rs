//! The value that all public handles of a factory share. The worker ends after the last handle is dropped.

use super::shared::Shared;
use std::{ops::Deref, sync::Arc};

/// Shared by factories, locks, futures and guards, but not by entries and the worker.
#[derive(Debug)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared })
    }
}

impl Deref for Handle {
    type Target = Arc<Shared>;
    fn deref(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.activity.close();
        if self.shared.runtimes.any() {
            // The worker ends once the guards that were dropped last are released, or after the time limit for a
            // shutdown.
            self.shared.work.notify();
        } else {
            self.shared.abandon();
        }
    }
}
