//! The context in which a machine handles an event: the time, the environment, and the output of commands.

use super::{command::Command, event::HoldId};
use crate::{
    backend::{AcquireMode, AcquireRequest, NotifyWaiters, Operation, ReleaseRequest, RenewRequest},
    ids::{LeaseId, LeaseNumber, ProcessId},
    name::LockName,
    options::Terms,
    time::{Moment, UtcTime},
};
use std::time::Duration;

/// The environment of a machine while it handles an event.
pub trait Env {
    /// Returns the name of the lock, as the store knows it, and this process.
    fn address(&self) -> (LockName, ProcessId);
    /// Draws 63 or more random bits for a lease id. A copy of this process, in the same state, draws others. Returns
    /// `None` if the operating system has no random numbers.
    fn unique(&mut self) -> Option<u64>;
    /// Returns random bits for jitter.
    fn jitter(&mut self) -> u64;
    /// Returns the current estimate of the server's clock.
    fn server_now(&mut self) -> UtcTime;
    /// Returns the number of this hold's guards that were granted at or before this moment and that their futures have
    /// not taken yet.
    fn unclaimed(&mut self, hold: HoldId, granted_by: Moment) -> u32;
}

/// The context of one call to `Machine::handle`.
pub(super) struct Ctx<'a> {
    pub(super) now: Moment,
    pub(super) env: &'a mut dyn Env,
    pub(super) out: &'a mut Vec<Command>,
}

impl Ctx<'_> {
    pub(super) fn emit(&mut self, command: Command) {
        self.out.push(command);
    }

    /// Requests a lease, or a greater depth, under these terms. Returns the server time at which the request becomes void.
    pub(super) fn acquire(&mut self, lease: LeaseNumber, mode: AcquireMode, terms: &Terms) -> UtcTime {
        let ((name, lease), not_after) = (self.address(lease), self.not_after(terms));
        let (duration, retention) = (terms.lease, terms.retention);
        let request = AcquireRequest { name, lease, duration, not_after, mode, retention };
        self.submit(Operation::Acquire(request), terms.operation_timeout);
        not_after
    }

    /// Extends a lease under these terms.
    pub(super) fn renew(&mut self, lease: LeaseNumber, terms: &Terms) {
        let ((name, lease), not_after) = (self.address(lease), self.not_after(terms));
        let request = RenewRequest { name, lease, duration: terms.lease, not_after };
        self.submit(Operation::Renew(request), terms.operation_timeout);
    }

    /// Lowers the depth of a lease, or frees the lock.
    pub(super) fn release(
        &mut self,
        lease: LeaseNumber,
        depth_left: u32,
        notify: NotifyWaiters,
        timeout: Duration,
    ) {
        let (name, lease) = self.address(lease);
        self.submit(Operation::Release(ReleaseRequest { name, lease, depth_left, notify }), timeout);
    }

    fn submit(&mut self, operation: Operation, timeout: Duration) {
        self.emit(Command::Io { operation, timeout });
    }

    fn address(&self, lease: LeaseNumber) -> (LockName, LeaseId) {
        let (name, process) = self.env.address();
        (name, LeaseId::new(process, lease))
    }

    /// Returns the server time at which a request that is sent now becomes void.
    fn not_after(&mut self, terms: &Terms) -> UtcTime {
        self.env.server_now() + terms.operation_timeout
    }

    pub(super) fn fresh_lease(&mut self) -> Option<LeaseNumber> {
        self.env.unique().map(LeaseNumber::new)
    }

    /// Returns a random time below `most`.
    pub(super) fn jitter(&mut self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.env.jitter() % micros)
    }
}
