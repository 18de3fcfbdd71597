//! The protected resource: a value that refuses older holders, on read and on write.

use lock_core::{FencingToken, LockName, backend::LeaseId};
use lock_testkit::planted::PlantedBug;

#[derive(Debug, Default)]
pub(crate) struct Resource {
    fence: u64,
    value: u64,
    /// The number of accepted writes.
    accepted: u64,
    /// The number of the grant of the newest holder that read.
    newest_reader: u64,
}

/// A write under way.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) link: usize,
    pub(crate) name: LockName,
    pub(crate) lease: LeaseId,
    pub(crate) token: FencingToken,
    pub(crate) value: u64,
}

impl Resource {
    /// Returns the value, unless a newer holder has read it. `order` is the store's number of the grant.
    pub(crate) fn read(&mut self, bug: Option<PlantedBug>, token: FencingToken, order: u64) -> Option<u64> {
        if token.get() < self.fence {
            return None;
        }
        if bug != Some(PlantedBug::UnfencedRead) {
            self.fence = token.get();
        }
        self.newest_reader = self.newest_reader.max(order);
        Some(self.value)
    }

    /// Returns `true` if the write is accepted: only the newest holder that has read may write.
    pub(crate) fn write(&mut self, bug: Option<PlantedBug>, write: &Write) -> bool {
        let token = write.token.get();
        let accepted = match bug {
            Some(PlantedBug::UnfencedWrite) => true,
            Some(PlantedBug::UnfencedRead) => token >= self.fence,
            _ => token == self.fence,
        };
        if accepted {
            if bug == Some(PlantedBug::UnfencedRead) {
                self.fence = token;
            }
            self.accepted += 1;
            self.value = write.value;
        }
        accepted
    }

    /// Returns `true` if the last accepted write lost nothing: it is from the newest reader and builds on every earlier
    /// write.
    pub(crate) fn is_fresh(&self, order: u64) -> bool {
        order >= self.newest_reader && self.value == self.accepted
    }
}
