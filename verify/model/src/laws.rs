//! The promises, numbered as in the design, and those that were broken on the way to a state or by its end.

use std::{
    hash::{Hash, Hasher},
    sync::OnceLock,
};

/// A promise that is checked in every state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Law {
    /// I1: there are never two valid holds, or valid permits whose weights exceed the largest limit; after a loss of data, at most one from before and one from after it.
    Exclusion,
    /// I2: while the store keeps its data, a valid hold expires in the store later than its deadline; expiries never
    /// decrease.
    Deadline,
    /// I3: one hold per token, and a re-entry keeps it.
    OneHold,
    /// I4: if a grant was returned before the store made another one, it has the smaller token.
    TokenOrder,
    /// I5: a fresh hold is never refused by a resource that remembers the highest token.
    Fence,
    /// I6: renewals, re-entries and releases only affect the lease that they name.
    OwnOnly,
    /// I7: ended things stay ended: a renewal revives no hold, no abandoned lease and no key.
    NoResurrection,
    /// I8: nothing is left in the store when nobody holds or wants anything, and a pool grants its whole limit.
    NoOrphan,
    /// I9: a loss is reported in time, once, and only if it happened.
    LossReportedOnce,
    /// I10: the stored depth matches the guards when nothing is under way, and is never zero; the same for the weight of a
    /// permit, which never rises.
    Depth,
    /// I11: no waiter sleeps while the lock is free.
    NoDeadWait,
    /// I12: once the faults have stopped, every waiter is granted within a bound.
    BoundedWait,
    /// I13: a lease is handed off within a process only within the store's range and the limits, between equal options,
    /// for no longer than these options ask for, and not once the process doubts it.
    HandOff,
    /// I14: no panic, no endless loop, bounded queues, one acquire in flight, each release answered once.
    NoPanic,
    /// I15: while the store keeps its data, nobody else is granted the lock before the minimum of a hold is over.
    MinimumHold,
    /// I16: no permit is granted that an earlier waiter in the store's queue needs.
    QueueOrder,
}

impl Law {
    /// Every variant.
    pub const ALL: [Self; 16] = [
        Self::Exclusion,
        Self::Deadline,
        Self::OneHold,
        Self::TokenOrder,
        Self::Fence,
        Self::OwnOnly,
        Self::NoResurrection,
        Self::NoOrphan,
        Self::LossReportedOnce,
        Self::Depth,
        Self::NoDeadWait,
        Self::BoundedWait,
        Self::HandOff,
        Self::NoPanic,
        Self::MinimumHold,
        Self::QueueOrder,
    ];

    /// Returns its number and its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "I1 exclusion of valid holds",
            Self::Deadline => "I2 local deadline before the expiry in the store",
            Self::OneHold => "I3 one hold per token",
            Self::TokenOrder => "I4 token order",
            Self::Fence => "I5 the fence never refuses a fresh hold",
            Self::OwnOnly => "I6 only the own lease is touched",
            Self::NoResurrection => "I7 no resurrection",
            Self::NoOrphan => "I8 no orphan at quiescence",
            Self::LossReportedOnce => "I9 loss reported in time and once",
            Self::Depth => "I10 depth",
            Self::NoDeadWait => "I11 nobody sleeps through a free lock",
            Self::BoundedWait => "I12 bounded wait when faults stop",
            Self::HandOff => "I13 hand-offs within range, budget and terms",
            Self::NoPanic => "I14 no panic, bounded queues",
            Self::MinimumHold => "I15 nobody is granted before a minimum hold is over",
            Self::QueueOrder => "I16 nobody overtakes an earlier waiter",
        }
    }
}

/// The promises that were broken on the way to a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Broken(u16);

impl Broken {
    /// Adds a promise. Later steps never remove it.
    pub fn add(&mut self, law: Law) {
        self.0 |= 1 << law as u8;
    }

    /// Adds the law if the promise was not kept.
    pub fn unless(&mut self, kept: bool, law: Law) {
        if !kept {
            self.add(law);
        }
    }

    /// Adds the promises of another set.
    pub fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Removes all other promises.
    pub fn keep_only(&mut self, law: Law) {
        self.0 &= 1 << law as u8;
    }

    /// Returns `true` if this promise was broken.
    #[must_use]
    pub fn has(self, law: Law) -> bool {
        self.0 & (1 << law as u8) != 0
    }

    /// Returns `true` if no promise was broken.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the first broken promise.
    #[must_use]
    pub fn first(self) -> Option<Law> {
        Law::ALL.into_iter().find(|law| self.has(*law))
    }
}

/// The promises that the end of a state breaks, once known. It is not part of the state, so all memos are equal.
#[derive(Debug, Default)]
pub(crate) struct Memo(OnceLock<Broken>);

impl Memo {
    pub(crate) fn get(&self, find: impl FnOnce() -> Broken) -> Broken {
        *self.0.get_or_init(find)
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memo {}

impl Hash for Memo {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
