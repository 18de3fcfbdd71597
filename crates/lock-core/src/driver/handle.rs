//! What every public handle of a factory keeps: the last one to go sends the worker home.

use super::{Driver, feed::Io};
use crate::{machine::Event, sync::lock};
use std::{ops::Deref, sync::Arc};

/// Factories, locks, futures and guards share one of these. Cells and the worker do not.
#[derive(Debug)]
pub(crate) struct Handle {
    driver: Arc<Driver>,
}

impl Handle {
    pub(crate) fn new(driver: Arc<Driver>) -> Arc<Self> {
        Arc::new(Self { driver })
    }
}

impl Deref for Handle {
    type Target = Arc<Driver>;
    fn deref(&self) -> &Arc<Driver> {
        &self.driver
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.driver.close();
        if self.driver.workers.any() {
            // It ends when what was dropped last is released, at the latest after the bound of a shutdown.
            self.driver.inbox.ring();
        } else {
            self.driver.abandon();
        }
    }
}

impl Driver {
    /// No worker, no runtime: holds are counted as over, and their leases end by themselves.
    pub(super) fn abandon(self: &Arc<Self>) {
        for cell in self.cells.all() {
            self.feed(&cell, Event::Shutdown, Io::Nobody);
        }
        self.inbox.give_up_calls();
        lock(&self.schedule).clear();
        let calls = std::mem::take(&mut *lock(&self.deadlines));
        drop(calls);
    }
}
