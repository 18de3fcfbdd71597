//! The faults that can be injected into a call, and the gates at which it can stop.

use lock_core::backend::BackendErrorKind;
use std::{fmt, time::Duration};
use tokio::sync::watch;

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

/// A point at which one call of a [`FaultyBackend`](super::FaultyBackend) stops until the gate is opened.
///
/// Dropping the gate opens it, so a failing test leaves no call waiting.
pub struct Gate {
    state: watch::Sender<State>,
}

/// The call's side of a gate.
pub(super) struct Bar {
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    reached: bool,
    open: bool,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self { state: watch::Sender::default() }
    }

    pub(super) fn bar(&self) -> Bar {
        Bar { state: self.state.clone() }
    }

    /// Returns once a call has arrived at this gate.
    ///
    /// # Cancel safety
    /// This method is cancel safe. It only observes the gate.
    pub async fn reached(&self) {
        self.until(|state| state.reached).await;
    }

    /// Returns whether a call has arrived at this gate.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.state.borrow().reached
    }

    /// Lets the current or next call pass. Opening twice has no further effect.
    pub fn open(&self) {
        self.state.send_modify(|state| state.open = true);
    }

    async fn until(&self, reached: impl FnMut(&State) -> bool) {
        let mut state = self.state.subscribe();
        state.wait_for(reached).await.expect("the gate holds a sender");
    }
}

impl Bar {
    /// Waits until the gate is open.
    pub(super) async fn pass(&self) {
        self.state.send_modify(|state| state.reached = true);
        let mut state = self.state.subscribe();
        state.wait_for(|state| state.open).await.expect("the bar holds a sender");
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { reached, open } = *self.state.borrow();
        f.debug_struct("Gate").field("reached", &reached).field("open", &open).finish()
    }
}
