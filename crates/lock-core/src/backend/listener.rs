//! How a store wakes the waiters of a process.

use crate::name::LockName;
use std::fmt::Debug;

/// Where a backend reports wake-ups. Implemented by the factory; calls return without blocking and may come from any
/// thread. A wake-up is a hint: nothing depends on its arrival, and one too many costs one request.
///
/// Call it with no mutex held. Where the store has a [`Pipeline`](super::Pipeline), the factory runs a lock's state machine
/// and its observers inside of the call, and may submit operations.
pub trait WakeListener: Debug + Send + Sync {
    /// The lock was released.
    fn released(&self, name: &LockName);

    /// Wake-ups may have been missed: every waiter asks again.
    fn wake_all(&self, reason: MissedWakes);

    /// The server restarted, perhaps without its data: every hold is checked, every waiter asks again.
    fn server_restarted(&self);
}

/// Why every waiter is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedWakes {
    /// The connection that carries wake-ups was replaced.
    Reconnected,
    /// The reader of wake-ups lagged and dropped some.
    Lagged,
}

/// Who watches: a factory, numbered by the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberId(u64);

impl SubscriberId {
    /// The subscriber of that number; numbers are the backend's to give.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
