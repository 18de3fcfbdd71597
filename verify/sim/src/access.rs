//! Reads and writes of the resource by holders, and the oracle's check for stale writes that were accepted.

use crate::{resource::Write, state::State, trace::Who};
use lock_core::{FencingToken, LockName, backend::LeaseId};

impl State {
    fn order(&self, lease: LeaseId) -> u64 {
        self.oracle.leases.get(&lease).map_or(0, |lease| lease.order)
    }

    /// Reads the value, unless a newer holder has used the resource.
    pub(crate) fn read(
        &mut self,
        link: usize,
        name: &LockName,
        lease: LeaseId,
        token: FencingToken,
    ) -> Option<u64> {
        let order = self.order(lease);
        let value = self.resources.get_mut(name)?.read(self.bug, token, order);
        self.note(Who::Link(link), "reads", (token.get(), value.is_some().into()));
        self.count(if value.is_some() { "read" } else { "refused read" });
        value
    }

    pub(crate) fn write(&mut self, write: &Write) {
        let order = self.order(write.lease);
        let residual = self.oracle.names.get(&write.name).is_some_and(|name| name.residual);
        let Some(resource) = self.resources.get_mut(&write.name) else { return };
        let accepted = resource.write(self.bug, write);
        if accepted {
            let fresh = resource.is_fresh(order);
            self.oracle.must(fresh || residual, || {
                format!("stale write accepted: {write:?} of grant {order}, {resource:?}")
            });
        }
        self.note(Who::Link(write.link), "writes", (write.token.get(), accepted.into()));
        self.count(if accepted { "write" } else { "refused write" });
    }
}
