//! An application's knowledge of a hold, as reported by its guards.

use lock_core::{clock::Moment, model::HoldId};

/// A hold as known to its guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Belief {
    pub(crate) id: HoldId,
    /// The end of its validity, by the clock of the process.
    pub(crate) deadline: Moment,
    pub(crate) guards: u32,
    /// `true` if guards are released explicitly.
    pub(crate) by_hand: bool,
    /// `true` once the deadline was seen to pass before the machine reported the end.
    pub(crate) seen_over: bool,
    /// `true` once the machine has reported the end.
    pub(crate) ended: bool,
    /// The number of the store's data losses when it granted the hold.
    pub(crate) epoch: u8,
}

impl Belief {
    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        self.guards > 0 && !self.ended && !self.seen_over && now < self.deadline
    }
}
