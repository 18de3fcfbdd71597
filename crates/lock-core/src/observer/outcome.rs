//! The outcomes in events, with their values in metrics and spans.

use crate::machine::LostReason;

pub use crate::machine::RenewalOutcome;

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
