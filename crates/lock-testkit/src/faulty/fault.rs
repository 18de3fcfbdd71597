//! What can go wrong with one call.

use lock_core::backend::BackendErrorKind;
use std::time::Duration;

/// The operations that can have faults. A renewal has its fault as a whole, with all its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Backend::acquire`](lock_core::backend::Backend::acquire).
    Acquire,
    /// [`Backend::renew`](lock_core::backend::Backend::renew).
    Renew,
    /// [`Backend::release`](lock_core::backend::Backend::release).
    Release,
    /// [`Subscriptions::subscribe`](lock_core::backend::Subscriptions::subscribe).
    Subscribe,
    /// [`Subscriptions::unsubscribe`](lock_core::backend::Subscriptions::unsubscribe).
    Unsubscribe,
    /// [`RunLedger::register`](lock_ledger::RunLedger::register).
    Register,
    /// [`RunLedger::claim`](lock_ledger::RunLedger::claim).
    Claim,
    /// [`RunLedger::renew`](lock_ledger::RunLedger::renew).
    RenewRuns,
    /// [`RunLedger::end`](lock_ledger::RunLedger::end).
    EndRun,
    /// [`RunLedger::controls`](lock_ledger::RunLedger::controls).
    Controls,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::Register,
        Self::Claim,
        Self::RenewRuns,
        Self::EndRun,
        Self::Controls,
    ];
}

/// A fault of one call. The backend has no time-outs; its callers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: a place holder in a script, so that "the third call fails" can be said.
    None,
    /// The request is slow: applied after this time, then answered.
    Delay(Duration),
    /// The answer is slow: applied at once, answered after this time.
    SlowAnswer(Duration),
    /// Certainly not applied: an error of this kind with [`Applied::No`](lock_core::backend::Applied::No).
    FailBefore(BackendErrorKind),
    /// Refused: not applied, with an error of this kind and [`Applied::No`](lock_core::backend::Applied::No). Meant for
    /// the kinds that are not retryable; random faults never draw it.
    Refuse(BackendErrorKind),
    /// The request is lost: not applied, but nobody can know: kind `Timeout`,
    /// [`Applied::Unknown`](lock_core::backend::Applied::Unknown).
    LoseRequest,
    /// The answer is lost: applied, then kind `Timeout`, [`Applied::Unknown`](lock_core::backend::Applied::Unknown).
    ApplyThenLose,
    /// Never applied, never answered.
    Hang,
    /// Applied at once, never answered.
    ApplyThenHang,
    /// Applied, and then the backend panics. Random faults never draw it.
    ApplyThenPanic,
    /// Delivered twice, back to back; one of the answers is returned.
    Twice(Kept),
    /// Never answered, but applied after this time, even if the caller gives up before. The call starts a task
    /// for it, which ends when it was applied, or with the runtime.
    Late(Duration),
}

/// Which answer of a request that was delivered twice arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// The answer to the first delivery.
    First,
    /// The answer to the second delivery.
    Second,
}

/// Where a [`Gate`](super::Gate) stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before the operation is applied: a call that is dropped here never was.
    Before,
    /// After the operation was applied, or failed, and before the caller hears of it.
    After,
}
