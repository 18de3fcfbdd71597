//! What a factory tells about itself: `tracing` events always, metrics through an observer.

#[cfg(feature = "otel")]
mod otel;
mod trace;

#[cfg(feature = "otel")]
pub use otel::{Instruments, OtelObserver};

pub use crate::machine::{GrantSource, ReleaseAnswer, RenewalOutcome, Unconfirmed};
use crate::{
    backend::BackendError,
    driver::Driver,
    ids::LeaseId,
    machine::{HoldEnd, LostReason},
    name::LockName,
    token::FencingToken,
};
use std::{
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

/// Hears of everything that happens to the locks of a factory.
///
/// Called outside of all mutexes, in the task that caused the event, also from Drop: return quickly and do not
/// block. A panic is caught and ends this call alone. Events of one lock come in order as far as one thread causes
/// them; where threads race, two of them may be exchanged.
///
/// ```
/// use lock_core::{LockFactory, MemoryBackend, observer::{LockEvent, LockObserver}};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// #[derive(Debug, Default)]
/// struct Losses(AtomicU64);
///
/// impl LockObserver for Losses {
///     fn observe(&self, _backend: &'static str, event: &LockEvent<'_>) {
///         if event.lost_reason().is_some() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let locks = LockFactory::builder(MemoryBackend::new()).observer(Losses::default()).build()?;
/// # Ok::<(), lock_core::LockError>(())
/// ```
pub trait LockObserver: Debug + Send + Sync + 'static {
    /// Something happened. `backend` is the short name of the backend.
    fn observe(&self, backend: &'static str, event: &LockEvent<'_>);
}

/// So that the application can keep the observer and read it.
impl<O: LockObserver + ?Sized> LockObserver for Arc<O> {
    fn observe(&self, backend: &'static str, event: &LockEvent<'_>) {
        (**self).observe(backend, event);
    }
}

/// What happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum LockEvent<'a> {
    /// An acquire began.
    WaitStarted {
        /// The lock.
        name: &'a LockName,
    },
    /// An acquire ended; there is one for each [`WaitStarted`](Self::WaitStarted).
    WaitEnded {
        /// The lock.
        name: &'a LockName,
        /// How.
        outcome: AcquireOutcome,
        /// How long it took.
        waited: Duration,
    },
    /// A hold began.
    Granted {
        /// The lock.
        name: &'a LockName,
        /// Its fencing token.
        token: FencingToken,
        /// Its lease in the store.
        lease: LeaseId,
        /// How it came about.
        by: GrantSource,
    },
    /// A hold ended; there is one for each [`Granted`](Self::Granted).
    Ended {
        /// The lock.
        name: &'a LockName,
        /// Its fencing token.
        token: FencingToken,
        /// Its lease in the store.
        lease: LeaseId,
        /// How.
        how: HoldEnd,
        /// How long it lasted.
        held: Duration,
    },
    /// A guard was released.
    GuardReleased {
        /// The lock.
        name: &'a LockName,
        /// What it found.
        answer: ReleaseAnswer,
        /// By hand, or by Drop.
        by: ReleaseKind,
    },
    /// A renewal was answered, or not.
    Renewal {
        /// The lock.
        name: &'a LockName,
        /// How.
        outcome: RenewalOutcome,
        /// How long it took.
        took: Duration,
        /// How long the hold is valid now.
        remaining: Duration,
    },
    /// A renewal failed; it is retried until the deadline.
    RenewalFailed {
        /// The lock.
        name: &'a LockName,
        /// The fencing token of the hold.
        token: FencingToken,
        /// How long the hold is still valid.
        remaining: Duration,
        /// What the store said, if it said anything.
        error: Option<&'a BackendError>,
    },
    /// Waiters were woken.
    WakeUp {
        /// The lock.
        name: &'a LockName,
        /// By what.
        wake: WakeSource,
    },
    /// Somebody in this process has waited longer than a lease for a hold of this process: perhaps for itself.
    SelfDeadlock {
        /// The lock.
        name: &'a LockName,
        /// The fencing token of the hold.
        token: FencingToken,
        /// For how long.
        waited: Duration,
    },
}

impl LockEvent<'_> {
    /// The lock that it is about.
    #[must_use]
    pub fn name(&self) -> &LockName {
        match self {
            Self::WaitStarted { name }
            | Self::WaitEnded { name, .. }
            | Self::Granted { name, .. }
            | Self::Ended { name, .. }
            | Self::GuardReleased { name, .. }
            | Self::Renewal { name, .. }
            | Self::RenewalFailed { name, .. }
            | Self::WakeUp { name, .. }
            | Self::SelfDeadlock { name, .. } => name,
        }
    }

    /// Why a hold was lost, if this says so.
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        match self {
            Self::Ended { how: HoldEnd::Lost(reason), .. } => Some(*reason),
            _ => None,
        }
    }
}

/// How an acquire ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquireOutcome {
    /// With a guard.
    Acquired,
    /// It was one try, and somebody else held the lock.
    Contended,
    /// The waiting time passed.
    Timeout,
    /// Its future was dropped.
    Cancelled,
    /// Any other error.
    Error,
}

/// How a guard was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReleaseKind {
    /// By `release().await`.
    Explicit,
    /// By dropping the guard.
    Dropped,
}

/// What wakes waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WakeSource {
    /// The store said that the lock was released.
    Push,
    /// It was time to ask again.
    Poll,
    /// The reader of wake-ups lagged: everybody asks again.
    Lagged,
    /// The connection that carries wake-ups was made anew: everybody asks again.
    Reconnected,
}

/// Calls an observer or a subscriber. A panic is caught: it must not take a release or a renewal with it.
pub fn catch_panic(call: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(call)));
}

/// The observers of a factory.
#[derive(Debug)]
pub(crate) struct Observers {
    list: Vec<Arc<dyn LockObserver>>,
    backend: &'static str,
}

impl Observers {
    pub(crate) fn new(list: Vec<Arc<dyn LockObserver>>, backend: &'static str) -> Self {
        Self { list, backend }
    }

    pub(crate) fn tell(&self, event: &LockEvent<'_>) {
        catch_panic(|| trace::event(self.backend, event));
        for observer in &self.list {
            catch_panic(|| observer.observe(self.backend, event));
        }
    }
}

impl Driver {
    pub(crate) fn observe(&self, event: &LockEvent<'_>) {
        self.observers().tell(event);
    }
}
