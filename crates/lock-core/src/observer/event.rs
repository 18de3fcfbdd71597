//! The events of a factory's locks with their outcomes, and the trait for observers.

use crate::{
    backend::{BackendError, Votes},
    ids::{FencingToken, LeaseId},
    machine::{GrantSource, HoldEnd, LostReason, ReleaseOutcome, RenewalOutcome},
    name::LockName,
    sync::assert_unlocked,
};
use std::{
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

/// Observes a factory's locks.
///
/// It is called without any mutex held, in the task that caused the event, including in Drop: return quickly and do not
/// block. In the background this is the keeper, the thread in which all factories renew their leases; a factory whose
/// observer may block needs a [`Worker`](crate::Worker). A panic is caught and ends only this call. Events of one lock
/// are in order if one thread causes them; events caused by racing threads may be swapped.
///
/// ```
/// use lock_core::{LockFactory, MemoryBackend, observer::{LockEvent, LockObserver}};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// #[derive(Debug, Default)]
/// struct Losses(AtomicU64);
///
/// impl LockObserver for Losses {
///     fn on_event(&self, event: &LockEvent<'_>) {
///         if event.lost_reason().is_some() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let losses = Arc::new(Losses::default()); // keep one to read it
/// let locks = LockFactory::builder(MemoryBackend::new()).observer(losses.clone()).build()?;
/// # Ok::<(), lock_core::LockError>(())
/// ```
pub trait LockObserver: Debug + Send + Sync + 'static {
    /// Called for each event.
    fn on_event(&self, event: &LockEvent<'_>);
}

impl<O: LockObserver + ?Sized> LockObserver for Arc<O> {
    fn on_event(&self, event: &LockEvent<'_>) {
        (**self).on_event(event);
    }
}

/// An event in the life of a lock.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LockEvent<'a> {
    /// The short name of the backend, as in [`Capabilities::name`](crate::backend::Capabilities::name).
    pub backend: &'static str,
    /// The lock, or the election.
    pub name: &'a LockName,
    /// The event.
    pub kind: LockEventKind<'a>,
}

impl LockEvent<'_> {
    /// Returns the reason, if the event is a loss.
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        match self.kind {
            LockEventKind::Ended { end: HoldEnd::Lost(reason), .. } => Some(reason),
            _ => None,
        }
    }
}

/// The kind of a [`LockEvent`], with its values.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum LockEventKind<'a> {
    /// An acquire began.
    WaitStarted,
    /// An acquire ended. There is one for each [`WaitStarted`](Self::WaitStarted).
    WaitEnded {
        /// The outcome.
        outcome: AcquireOutcome,
        /// The time from its first poll to the outcome. A busy task observes the outcome later.
        waited: Duration,
    },
    /// A hold began.
    Granted {
        /// The fencing token of the hold.
        token: FencingToken,
        /// The lease in the store.
        lease: LeaseId,
        /// The source of the grant.
        source: GrantSource,
    },
    /// A hold ended. There is one for each [`Granted`](Self::Granted).
    Ended {
        /// The fencing token of the hold.
        token: FencingToken,
        /// The lease in the store.
        lease: LeaseId,
        /// The end of the hold: a release or a loss.
        end: HoldEnd,
        /// The time since the grant.
        held: Duration,
    },
    /// A guard was released, by `release().await` or by Drop.
    GuardReleased {
        /// The outcome, as returned by [`LockGuard::release`](crate::LockGuard::release); `None` if the store did not
        /// confirm the release. A drop does not wait for the store: its outcome is based on what this process knows.
        outcome: Option<ReleaseOutcome>,
        /// The kind of the release.
        kind: ReleaseKind,
    },
    /// A renewal was answered, or its operation timeout passed.
    Renewal {
        /// The outcome.
        outcome: RenewalOutcome,
        /// The time since the request was sent.
        took: Duration,
        /// The remaining time for which the hold is valid.
        remaining: Duration,
    },
    /// A renewal failed. It is retried until the hold's deadline.
    RenewalFailed {
        /// The fencing token of the hold.
        token: FencingToken,
        /// The remaining validity of the hold.
        remaining: Duration,
        /// The store's error, if it replied.
        error: Option<&'a BackendError>,
    },
    /// The nodes of a quorum answered an acquire, a renewal or a release. A single store has no votes.
    Voted {
        /// The reply of each node when the decision was made.
        votes: &'a Votes,
    },
    /// Waiters were woken.
    WakeUp {
        /// The source of the wake-up.
        source: WakeSource,
    },
    /// A task has waited longer than a lease for a lock that this process holds, perhaps in the same task.
    SelfDeadlock {
        /// The fencing token of the hold.
        token: FencingToken,
        /// The time that the task has waited.
        waited: Duration,
    },
    /// This process was elected; see [`election`](crate::election).
    TermStarted {
        /// The fencing token of the term.
        token: FencingToken,
    },
    /// A term of this process ended. There is one for each [`TermStarted`](Self::TermStarted). The body of the term has
    /// ended; a lock that was not lost is released next.
    TermEnded {
        /// The fencing token of the term.
        token: FencingToken,
        /// The end of the term.
        end: TermEnd,
        /// The body's error or panic message; empty if there was none.
        detail: &'a str,
        /// The time from the election to this end.
        led: Duration,
    },
}

/// The outcome of an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquireOutcome {
    /// The lock was acquired.
    Acquired,
    /// It was a single attempt, and the lock was held or had waiters.
    Contended,
    /// The waiting time passed.
    Timeout,
    /// Its future was dropped.
    Cancelled,
    /// It failed with another error.
    Error,
}

impl AcquireOutcome {
    /// Returns the value used in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Contended => "contended",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// The way a guard was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseKind {
    /// By `release().await`.
    Explicit,
    /// By dropping the guard.
    Dropped,
}

impl ReleaseKind {
    /// Returns the value used in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Dropped => "dropped",
        }
    }
}

impl RenewalOutcome {
    /// Returns the value used in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Renewed => "renewed",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }
}

/// The way a term of leadership ended; see [`election`](crate::election).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TermEnd {
    /// The body returned `Ok`.
    Finished,
    /// The body returned an error.
    Failed,
    /// The body panicked.
    Panicked,
    /// The lock was lost.
    Lost(LostReason),
    /// The process resigned.
    Resigned,
    /// The shutdown began.
    Stopped,
    /// The future of [`Lead::until`](crate::election::Lead::until) was dropped.
    Cancelled,
}

impl TermEnd {
    /// Returns the value used in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
            Self::Lost(_) => "lost",
            Self::Resigned => "resigned",
            Self::Stopped => "stopped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The source of a wake-up of waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WakeSource {
    /// The store reported that the lock was released.
    Push,
    /// The poll interval passed.
    Poll,
    /// The reader of wake-ups lagged behind, so all waiters retry.
    Lagged,
    /// The connection that carries wake-ups was replaced, so all waiters retry.
    Reconnected,
}

impl WakeSource {
    /// Returns the value used in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Poll => "poll",
            Self::Lagged => "lagged",
            Self::Reconnected => "reconnected",
        }
    }
}

/// Logs an event and passes it to each observer. A panic of an observer is caught and ends only that call: it must not
/// affect a release or a renewal.
pub fn notify_all<O: ?Sized>(observers: &[Arc<O>], log: impl FnOnce(), call: impl Fn(&O)) {
    assert_unlocked("an observer");
    drop(catch_unwind(AssertUnwindSafe(log)));
    for observer in observers {
        drop(catch_unwind(AssertUnwindSafe(|| call(observer))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Mutex, lock, rank};

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "an observer is called under the mutex `Entry`"))]
    fn observer_under_a_mutex_panics_in_debug_builds() {
        let entry = Mutex::<rank::Entry, _>::new(());
        let _entry = lock(&entry);
        notify_all::<()>(&[], || (), |()| ());
    }
}
