//! Wake-ups from a store to the waiters of a process.

use crate::name::LockName;
use std::fmt::Debug;

/// The receiver of a backend's wake-ups, implemented by the factory. Calls return without blocking and may come from
/// any thread. A wake-up is a hint: correctness does not depend on its arrival, and a superfluous one costs one
/// request.
///
/// Do not hold a mutex while calling it. With [`Capabilities::wakes_in_task`](super::Capabilities::wakes_in_task), the
/// factory runs a lock's state machine and its observers inside the call, and may submit operations.
pub trait WakeListener: Debug + Send + Sync {
    /// Called when the lock is released, with its name in the store.
    fn released(&self, name: &LockName);

    /// Called when wake-ups may have been missed: every waiter requests the lock again.
    fn wake_all(&self, reason: MissedWakes);

    /// Called when the server has restarted, perhaps without its data: every hold is verified, and every waiter
    /// requests the lock again.
    fn server_restarted(&self);
}

/// The reason why every waiter is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedWakes {
    /// The connection that carries wake-ups was replaced.
    Reconnected,
    /// The reader of wake-ups lagged behind and dropped some.
    Lagged,
}

/// The id of a registered listener, chosen by the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberId(u64);

impl SubscriberId {
    /// Creates an id from a number that the backend assigns.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
