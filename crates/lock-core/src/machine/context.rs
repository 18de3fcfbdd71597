//! What surrounds a machine while it handles an event: the time, the world, and where commands go.

use super::{command::Command, event::HoldId};
use crate::{
    ids::LeaseNumber,
    time::{Moment, ServerTime},
};
use std::time::Duration;

/// What the machine asks of the world while it handles an event.
pub trait Env {
    /// 63 or more random bits; the lower ones become a lease id, or jitter.
    fn random(&mut self) -> u64;
    /// The server's clock, as it is estimated now.
    fn server_now(&mut self) -> ServerTime;
    /// How many guards of this hold were granted at this moment or before, and not yet taken by the futures that asked.
    fn unclaimed(&mut self, hold: HoldId, granted_by: Moment) -> u32;
}

/// One call of `Machine::handle`: the time, the world, and where commands go.
pub(super) struct Ctx<'a> {
    pub(super) now: Moment,
    pub(super) env: &'a mut dyn Env,
    pub(super) out: &'a mut Vec<Command>,
}

impl Ctx<'_> {
    pub(super) fn emit(&mut self, command: Command) {
        self.out.push(command);
    }

    pub(super) fn fresh_lease(&mut self) -> LeaseNumber {
        LeaseNumber::new(self.env.random())
    }

    /// A random time below `most`.
    pub(super) fn jitter(&mut self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.env.random() % micros)
    }
}
