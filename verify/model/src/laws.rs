//! The promises, by the numbers that the design gave them.

/// A promise that every state is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Law {
    /// I1: no two valid holds; after a loss of data, at most one before and one after it.
    Exclusion,
    /// I2: while the store keeps its data, a hold that is believed in is stored for longer; expiries never fall.
    Deadline,
    /// I3: one hold per token, and a re-entry keeps it.
    OneHold,
    /// I4: a grant that was returned before another was given by the store has the smaller token.
    TokenOrder,
    /// I5: a fresh hold is never refused by a resource that remembers the highest token.
    Fence,
    /// I6: renew, re-entry and release touch only the lease that they name.
    OwnOnly,
    /// I7: what is over stays over: no hold, no lease that was given up, no key by a renewal.
    NoResurrection,
    /// I8: nothing is left in the store when nobody holds or wants anything.
    NoOrphan,
    /// I9: a loss is told in time, once, and only if it is one.
    LostToldOnce,
    /// I10: the stored depth is that of the guards when nothing is under way, and never zero.
    Depth,
    /// I11: nobody sleeps through a free lock.
    NoDeadWait,
    /// I12: when the faults stop, everybody who waits is granted within a bound.
    BoundedWait,
    /// I13: a lease is passed on within a process only as far as the store's range and the budget go, under equal terms, and
    /// not while its process doubts it.
    HandOff,
    /// I14: no panic, no endless turning, bounded queues, one acquire in flight, each release answered once.
    NoPanic,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Exclusion,
        Self::Deadline,
        Self::OneHold,
        Self::TokenOrder,
        Self::Fence,
        Self::OwnOnly,
        Self::NoResurrection,
        Self::NoOrphan,
        Self::LostToldOnce,
        Self::Depth,
        Self::NoDeadWait,
        Self::BoundedWait,
        Self::HandOff,
        Self::NoPanic,
    ];

    /// Its number and its words.
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
            Self::LostToldOnce => "I9 lost is told in time and once",
            Self::Depth => "I10 depth",
            Self::NoDeadWait => "I11 nobody sleeps through a free lock",
            Self::BoundedWait => "I12 bounded wait when faults stop",
            Self::HandOff => "I13 hand-offs within range, budget and terms",
            Self::NoPanic => "I14 no panic, bounded queues",
        }
    }
}

/// Which promises were broken on the way to a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Broken(u16);

impl Broken {
    /// From here on, and for good.
    pub fn add(&mut self, law: Law) {
        self.0 |= 1 << law as u8;
    }

    /// Adds the law unless the promise was kept.
    pub fn unless(&mut self, kept: bool, law: Law) {
        if !kept {
            self.add(law);
        }
    }

    /// Adds those of another.
    pub fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Forgets all others.
    pub fn keep_only(&mut self, law: Law) {
        self.0 &= 1 << law as u8;
    }

    /// Whether this one was broken.
    #[must_use]
    pub fn has(self, law: Law) -> bool {
        self.0 & (1 << law as u8) != 0
    }

    /// Whether none was.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The first of them.
    #[must_use]
    pub fn first(self) -> Option<Law> {
        Law::ALL.into_iter().find(|law| self.has(*law))
    }
}
