//! A gate that stops one call at a defined point.

use std::fmt;
use tokio::sync::watch;

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
