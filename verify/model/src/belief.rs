//! What an application believes of a hold, from what its guards say.

use lock_core::{clock::Moment, model::HoldId};

/// A hold, as its guards know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Belief {
    pub(crate) id: HoldId,
    /// Valid until then by the clock of the process.
    pub(crate) deadline: Moment,
    pub(crate) guards: u32,
    /// Whether guards are released by hand.
    pub(crate) by_hand: bool,
    /// Somebody saw the deadline pass, before the machine said anything.
    pub(crate) seen_over: bool,
    /// The machine said that it is over.
    pub(crate) ended: bool,
    /// How often the store had lost data when it granted this.
    pub(crate) epoch: u8,
}

impl Belief {
    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        self.guards > 0 && !self.ended && !self.seen_over && now < self.deadline
    }
}
