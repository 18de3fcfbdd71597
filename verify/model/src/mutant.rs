//! Known bugs, planted at the edges: in the store, in messages, in what goes into and comes out of the machine.

/// A bug that the search must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// The hold counts from the reply instead of from before the request.
    DeadlineFromReply,
    /// A release deletes whatever lease is there.
    DeleteWithoutCompare,
    /// A renewal extends whatever lease is there.
    RenewWithoutCompare,
    /// A renewal that finds nothing sets the lease again.
    RenewalCreates,
    /// Acquires and releases count up and down instead of stating the depth.
    CountingDepth,
    /// A re-entry that finds nothing sets the lease again.
    ReentryCreates,
    /// The store carries out an acquire after its `not_after`.
    NoNotAfter,
    /// The subscription is made after the try that should have followed it.
    CheckThenSubscribe,
    /// A wake-up is ignored while an attempt is in flight.
    WakeIgnoredDuringAttempt,
    /// An inner guard with a short lease shortens the expiry.
    InnerShortens,
    /// A guard that leaves lowers the depth while a re-entry is in flight.
    DepthOverlap,
    /// Whoever gives up undoes nothing.
    NoUndo,
    /// A renewal without an answer ends the hold.
    RenewalErrorIsLoss,
    /// A renewal without an answer is taken for a success.
    RenewalErrorIsFine,
    /// Nobody is told that the hold is lost.
    LossNotTold,
    /// A release that finds nothing is taken for one that freed the lock.
    GoneIsReleased,
    /// Tokens are a plain counter, which goes on from where old data left it.
    StaleCounter,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::DeadlineFromReply,
        Self::DeleteWithoutCompare,
        Self::RenewWithoutCompare,
        Self::RenewalCreates,
        Self::CountingDepth,
        Self::ReentryCreates,
        Self::NoNotAfter,
        Self::CheckThenSubscribe,
        Self::WakeIgnoredDuringAttempt,
        Self::InnerShortens,
        Self::DepthOverlap,
        Self::NoUndo,
        Self::RenewalErrorIsLoss,
        Self::RenewalErrorIsFine,
        Self::LossNotTold,
        Self::GoneIsReleased,
        Self::StaleCounter,
    ];
}
