//! The faults of a call.

use lock_core::backend::BackendErrorKind;
use std::time::Duration;

/// The operations that can have faults. A fault of a renewal affects the whole call with all its items.
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
    /// [`RunLedger::heartbeat`](lock_ledger::RunLedger::heartbeat).
    Heartbeat,
    /// [`RunLedger::add`](lock_ledger::RunLedger::add).
    AddInstance,
    /// [`RunLedger::instances`](lock_ledger::RunLedger::instances).
    Instances,
    /// [`RunLedger::summary`](lock_ledger::RunLedger::summary).
    Summary,
}

impl Op {
    /// Every variant.
    pub const ALL: [Self; 14] = [
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
        Self::Heartbeat,
        Self::AddInstance,
        Self::Instances,
        Self::Summary,
    ];
}

/// A fault of one call. The backend has no timeouts of its own; its callers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault. A placeholder in a script, so that for example only the third call fails.
    None,
    /// Delays the request: it is applied after this time, then answered.
    Delay(Duration),
    /// Delays the answer: the request is applied immediately and answered after this time.
    SlowAnswer(Duration),
    /// Certainly not applied: returns an error of this kind with [`Applied::No`](lock_core::backend::Applied::No).
    FailBefore(BackendErrorKind),
    /// Refused: not applied, with an error of this kind and [`Applied::No`](lock_core::backend::Applied::No). Meant
    /// for kinds that are not retryable; random faults never draw it.
    Refuse(BackendErrorKind),
    /// Loses the request: not applied, but the caller cannot know. Kind `Timeout`,
    /// [`Applied::Unknown`](lock_core::backend::Applied::Unknown).
    LoseRequest,
    /// Loses the answer: applied, then kind `Timeout`, [`Applied::Unknown`](lock_core::backend::Applied::Unknown).
    ApplyThenLose,
    /// Never applied and never answered.
    Hang,
    /// Applied immediately but never answered.
    ApplyThenHang,
    /// Applied, after which the backend panics. Random faults never draw it.
    ApplyThenPanic,
    /// Delivered twice, back to back. One of the two answers is returned.
    Twice(Kept),
    /// Never answered, but applied after this time, even if the caller gives up first. The call spawns a task for it,
    /// which ends once it is applied, or with the runtime.
    Late(Duration),
}

/// The answer that arrives for a request that was delivered twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// The answer to the first delivery.
    First,
    /// The answer to the second delivery.
    Second,
}

/// The position of a [`Gate`](super::Gate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before the operation is applied. A call that is dropped here is never applied.
    Before,
    /// After the operation was applied or failed, and before the caller is answered.
    After,
}
