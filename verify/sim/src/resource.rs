//! What the locks protect: a value that refuses older holders, on read and on write.

use crate::{plant::Plant, state::State, trace::Who};
use lock_core::{FencingToken, LeaseId, LockName};

#[derive(Debug, Default)]
pub(crate) struct Resource {
    fence: u64,
    value: u64,
    /// How many writes were accepted.
    accepted: u64,
    /// The store's number of the newest holder that read.
    newest_reader: u64,
}

/// A write on its way.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) link: usize,
    pub(crate) name: LockName,
    pub(crate) lease: LeaseId,
    pub(crate) token: FencingToken,
    pub(crate) value: u64,
}

impl State {
    fn order(&self, lease: LeaseId) -> u64 {
        self.oracle.leases.get(&lease).map_or(0, |lease| lease.order)
    }

    /// The value, unless a newer holder has been here.
    pub(crate) fn read(
        &mut self,
        link: usize,
        name: &LockName,
        lease: LeaseId,
        token: FencingToken,
    ) -> Option<u64> {
        let (order, plant) = (self.order(lease), self.plant);
        let resource = self.resources.get_mut(name)?;
        let accepted = token.get() >= resource.fence;
        if accepted {
            if plant != Plant::UnfencedRead {
                resource.fence = token.get();
            }
            resource.newest_reader = resource.newest_reader.max(order);
        }
        let value = resource.value;
        self.note(Who::Link(link), "reads", (token.get(), accepted.into()));
        self.count(if accepted { "read" } else { "refused read" });
        accepted.then_some(value)
    }

    pub(crate) fn write(&mut self, write: &Write) {
        let order = self.order(write.lease);
        let residual = self.oracle.names.get(&write.name).is_some_and(|name| name.residual);
        let Some(resource) = self.resources.get_mut(&write.name) else { return };
        let accepted = match self.plant {
            Plant::UnfencedWrite => true,
            Plant::UnfencedRead => write.token.get() >= resource.fence,
            _ => write.token.get() == resource.fence,
        };
        if accepted {
            if self.plant == Plant::UnfencedRead {
                resource.fence = write.token.get();
            }
            resource.accepted += 1;
            resource.value = write.value;
            let (value, count, newest) = (resource.value, resource.accepted, resource.newest_reader);
            let fresh = order >= newest && value == count;
            self.oracle.must(fresh || residual, || {
                format!(
                    "{}: stale write accepted: {write:?}, grant {order} after {newest}, {count} writes",
                    write.name
                )
            });
        }
        self.note(Who::Link(write.link), "writes", (write.token.get(), accepted.into()));
        self.count(if accepted { "write" } else { "refused write" });
    }
}
