//! The faults that can be injected into a call.

use lock_core::backend::BackendErrorKind;
use std::time::Duration;

/// The operations that can have faults. A fault in a renewal affects all items in the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`AsyncBackend::acquire`](lock_core::backend::AsyncBackend::acquire).
    Acquire,
    /// [`AsyncBackend::renew`](lock_core::backend::AsyncBackend::renew).
    Renew,
    /// [`AsyncBackend::release`](lock_core::backend::AsyncBackend::release).
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

/// A fault that affects one call. The backend has no timeouts; its callers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault. Serves as a placeholder in a script, for example to fail only the third call.
    None,
    /// Delays the request: it is applied after this time, and the reply follows.
    Delay(Duration),
    /// Delays the reply: the request is applied immediately, and the reply is sent after this time.
    SlowAnswer(Duration),
    /// Fails the request without applying it. Returns an error of this kind with
    /// [`Applied::No`](lock_core::backend::Applied::No).
    FailBefore(BackendErrorKind),
    /// Refuses the request without applying it. Returns an error of this kind with
    /// [`Applied::No`](lock_core::backend::Applied::No). Intended for kinds that are not retryable.
    /// Never drawn by random faults.
    Refuse(BackendErrorKind),
    /// Loses the request without applying it. Returns an error of kind `Timeout` with
    /// [`Applied::Unknown`](lock_core::backend::Applied::Unknown).
    LoseRequest,
    /// Applies the request and loses the reply. Returns an error of kind `Timeout` with
    /// [`Applied::Unknown`](lock_core::backend::Applied::Unknown).
    ApplyThenLose,
    /// Never applies the request and never replies.
    Hang,
    /// Applies the request immediately and never replies.
    ApplyThenHang,
    /// Applies the request, then panics. Never drawn by random faults.
    ApplyThenPanic,
    /// Delivers the request twice in a row, and returns one of the two replies.
    Twice(Kept),
    /// Applies the request after this time, even if the caller gives up first, and never replies.
    /// The call spawns a task that ends after applying the request, or with the runtime.
    Late(Duration),
}

/// The reply that is returned for a request delivered twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// The reply to the first delivery.
    First,
    /// The reply to the second delivery.
    Second,
}

/// The position of a [`Gate`](super::Gate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before the operation is applied. A call dropped here is never applied.
    Before,
    /// After the operation was applied or failed, and before the caller receives the reply.
    After,
}
