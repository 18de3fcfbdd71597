//! The part shared by every public handle of a factory. Dropping the last one ends the worker.

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
            // The worker ends when the guards dropped last are released, at the latest after the bound of a shutdown.
            self.shared.work.notify();
        } else {
            self.shared.abandon();
        }
    }
}
