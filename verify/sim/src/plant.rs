//! Planted bugs: a checker is trusted when it finds them.

/// What is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plant {
    /// Nothing.
    Nothing,
    /// The store carries out acquires and renewals after their `not_after`.
    IgnoresNotAfter,
    /// The store renews, and so re-creates, a lease that is gone.
    RenewsWhatIsGone,
    /// The network answers renewals with success although they were lost.
    LyingRenewals,
    /// The store sets the expiry of a renewed lease lower than asked.
    LowersExpiry,
    /// The store counts tokens from 1 and forgets the counter with its data.
    RestartsTokens,
    /// The store counts no tokens at all.
    ConstantToken,
    /// The boundary of the driver answers releases without sending them.
    DropsReleases,
    /// The store frees a lock whoever asks.
    FreesStrangers,
    /// The store grants a lock whose lease has less than a third left.
    GrantsEarly,
    /// The store now and then says *gone* of a lease that is there.
    FalseGone,
    /// A stale replica answers renewals and releases now and then in the place of the store: *gone*, of what it never had.
    ReplicaSaysGone,
    /// The clocks of processes are slower than the margin allows, so leases end before their holders notice.
    SlowClock,
    /// The boundary of the driver resends releases by itself and keeps the second answer.
    HidesResends,
    /// The store never ends a subscription.
    KeepsWatchers,
    /// Re-entries are answered, and not stored longer: the lease ends before its holder believes.
    ForgetsReentries,
    /// A release that finds nothing is told as one that freed the lock.
    GoneIsReleased,
    /// The network delivers an acquire that was answered once more, up to a second later, which the contract of a backend
    /// forbids: after the release and before the request's `not_after`, it leaves a lease that nobody knows of.
    LateDuplicates,
    /// The resource does not check the token of a write.
    UnfencedWrite,
    /// The resource checks tokens on write only.
    UnfencedRead,
}

impl Plant {
    /// All but nothing.
    pub const ALL: [Self; 19] = [
        Self::IgnoresNotAfter,
        Self::RenewsWhatIsGone,
        Self::LyingRenewals,
        Self::LowersExpiry,
        Self::RestartsTokens,
        Self::ConstantToken,
        Self::DropsReleases,
        Self::FreesStrangers,
        Self::GrantsEarly,
        Self::FalseGone,
        Self::ReplicaSaysGone,
        Self::SlowClock,
        Self::HidesResends,
        Self::KeepsWatchers,
        Self::ForgetsReentries,
        Self::GoneIsReleased,
        Self::LateDuplicates,
        Self::UnfencedWrite,
        Self::UnfencedRead,
    ];
}
