//! The context in which a machine handles an event: the time, the environment, and the output of commands.

use super::{command::Command, event::HoldId};
use crate::{
    ids::LeaseNumber,
    time::{Moment, UtcTime},
};
use std::time::Duration;

/// The environment of a machine while it handles an event.
pub trait Env {
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

    pub(super) fn fresh_lease(&mut self) -> Option<LeaseNumber> {
        self.env.unique().map(LeaseNumber::new)
    }

    /// Returns a random time below `most`.
    pub(super) fn jitter(&mut self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.env.jitter() % micros)
    }
}
