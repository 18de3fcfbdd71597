//! A part of every public handle of a factory: the last one to go ends the worker.

use super::shared::Shared;
use std::{ops::Deref, sync::Arc};

/// Factories, locks, futures and guards share one of these. Entries and the worker do not.
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
            // It ends when the guards that were dropped last are released, at the latest after the bound of a shutdown.
            self.shared.work.notify();
        } else {
            self.shared.abandon();
        }
    }
}
