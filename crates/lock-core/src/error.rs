//! Errors of acquires, releases and connections.

use crate::{
    backend::{Applied, BackendError, BackendErrorKind},
    machine::{LostReason, Unconfirmed},
    name::{LockName, NameError},
    options::OptionsError,
    set::{MemberLost, SetError},
};
use std::{error::Error, fmt, sync::Arc};

/// The error of a lock operation. Use [`kind`](LockError::kind) to distinguish causes.
///
/// The message is one clause that says what failed and, if the caller can do something about it, what to do. The cause
/// is in [`source`](Error::source); `{error:#}` prints both.
#[derive(Clone)]
pub struct LockError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: LockErrorKind,
    name: Option<LockName>,
    detail: Option<String>,
    source: Option<Arc<dyn Error + Send + Sync>>,
    ambiguous: bool,
}

/// The kind of a [`LockError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockErrorKind {
    /// The string is not a valid lock name; the source is a [`NameError`].
    InvalidName,
    /// The options contradict each other; the source is an [`OptionsError`].
    InvalidOptions,
    /// The locks cannot form a [set](crate::set); the source is a [`SetError`].
    InvalidSet,
    /// The scheme of the backend's URL is unknown, or the URL is malformed.
    InvalidUrl,
    /// The waiting time passed while others held the lock.
    Timeout,
    /// Too many acquires are in progress, for this name or in this factory.
    TooManyWaiters,
    /// The store was unreachable or did not reply for longer than the outage budget or the waiting time, or during a
    /// single attempt. The source is the last [`BackendError`], if there was one.
    Unavailable,
    /// The store rejected the request, for example because of permissions, a key of another type, or its
    /// configuration; or its reply could not be understood. The source is the [`BackendError`].
    Backend,
    /// The hold was already lost.
    Lost,
    /// A lock of a [set](crate::set) was lost while the set waited for a later one. All its locks were
    /// released, and acquiring the set can be retried.
    MemberLost,
    /// The owner belongs to another factory.
    ForeignOwner,
    /// The factory was shut down.
    ShutDown,
    /// This process is a fork of the one that made the factory. The locks, the connections and the background tasks of
    /// the factory are those of the other process. Make a factory after the fork.
    Forked,
    /// There is no runtime for background work: the keeper's thread cannot be started, the given
    /// [`Worker`](crate::Worker)'s runtime has ended or has no timer, or a factory with its own clock is used outside
    /// of a runtime. (A missing timer is detected by catching a panic, so the panic message is printed; under
    /// `panic = "abort"` the process aborts.)
    NoRuntime,
    /// A blocking call was made from a tokio task. It would block a thread that other tasks need.
    AsyncContext,
    /// The store did not confirm a release: it did not reply in time, or its reply was lost. The guard is gone and
    /// the release continues in the background, so the caller has nothing left to do. The work was protected unless
    /// the lock was forcibly released or the store lost its data; in that case a resource that checks the fencing
    /// token has rejected it.
    Unconfirmed,
}

impl LockErrorKind {
    pub(crate) fn of(error: &BackendError) -> Self {
        match error.kind() {
            BackendErrorKind::Unavailable | BackendErrorKind::Timeout => Self::Unavailable,
            BackendErrorKind::Denied
            | BackendErrorKind::WrongType
            | BackendErrorKind::Misconfigured
            | BackendErrorKind::Unsupported
            | BackendErrorKind::Protocol => Self::Backend,
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::InvalidName => "the lock name is invalid",
            Self::InvalidOptions => "the lock options are invalid",
            Self::InvalidSet => "the set of locks is invalid",
            Self::InvalidUrl => "the backend URL is invalid",
            Self::Timeout => "the lock was not acquired within the waiting time",
            Self::TooManyWaiters => "too many waiters: try again later, or raise the factory's limits",
            Self::Unavailable => "the store is unavailable",
            Self::Backend => "the request to the store failed",
            Self::Lost => {
                "the hold was lost: stop the work it protected, then acquire the lock again with a new owner"
            }
            Self::MemberLost => {
                "a lock of the set was lost while the set waited for a later one: acquire the set again"
            }
            Self::ForeignOwner => {
                "the owner belongs to another factory: create it with `owner()` on this lock's factory"
            }
            Self::ShutDown => "the lock factory is shut down",
            Self::Forked => {
                "the lock factory belongs to the process that this one was forked from: make a factory after the fork"
            }
            Self::NoRuntime => "no runtime is available for background work",
            Self::AsyncContext => {
                "a blocking call was made in an async context: await `acquire` or `release`, or make the call in \
                 `spawn_blocking`"
            }
            Self::Unconfirmed => {
                "the store did not confirm that the lock was held until its release: the lock is free now, or will be \
                 when its lease ends"
            }
        }
    }
}

impl LockError {
    pub(crate) fn new(kind: LockErrorKind) -> Self {
        let ambiguous = kind == LockErrorKind::Unconfirmed;
        Self(Box::new(Inner { kind, name: None, detail: None, source: None, ambiguous }))
    }

    pub(crate) fn of(mut self, name: &LockName) -> Self {
        self.0.name = Some(name.clone());
        self
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn because(mut self, source: Arc<dyn Error + Send + Sync>) -> Self {
        self.0.source = Some(source);
        self
    }

    pub(crate) fn backend(kind: LockErrorKind, error: Option<Arc<BackendError>>) -> Self {
        let mut this = Self::new(kind);
        if let Some(error) = error {
            this.0.ambiguous = error.applied() == Applied::Unknown;
            this.0.source = Some(error);
        }
        this
    }

    /// Sets whether the store may have applied the request.
    pub(crate) fn applied(mut self, applied: Applied) -> Self {
        self.0.ambiguous = applied == Applied::Unknown;
        self
    }

    /// Creates the error for a URL that a connector rejects. `detail` says why and what to do; it must not
    /// contain secrets.
    #[must_use]
    pub fn invalid_url(detail: impl Into<String>) -> Self {
        Self::new(LockErrorKind::InvalidUrl).detail(detail)
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> LockErrorKind {
        self.0.kind
    }

    /// Returns the name of the lock, if the error concerns one.
    #[must_use]
    pub fn name(&self) -> Option<&LockName> {
        self.0.name.as_ref()
    }

    /// Returns `true` if the same call may succeed later without intervention. An
    /// [`Unconfirmed`](LockErrorKind::Unconfirmed) release is not retryable: the work under the lock is done and must
    /// not be repeated.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.0.kind {
            LockErrorKind::Timeout
            | LockErrorKind::TooManyWaiters
            | LockErrorKind::Unavailable
            | LockErrorKind::MemberLost => true,
            LockErrorKind::Backend => self.backend_error().is_some_and(BackendError::is_retryable),
            LockErrorKind::InvalidName
            | LockErrorKind::InvalidOptions
            | LockErrorKind::InvalidSet
            | LockErrorKind::InvalidUrl
            | LockErrorKind::Lost
            | LockErrorKind::ForeignOwner
            | LockErrorKind::ShutDown
            | LockErrorKind::Forked
            | LockErrorKind::NoRuntime
            | LockErrorKind::AsyncContext
            | LockErrorKind::Unconfirmed => false,
        }
    }

    /// Returns `true` if the store may have applied the request even though it failed. An acquire whose outcome is
    /// unknown is undone in the background; the caller does not need to do anything.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.0.ambiguous
    }

    /// Returns the backend error that caused this error, if there is one.
    #[must_use]
    pub fn backend_error(&self) -> Option<&BackendError> {
        self.0.source.as_deref()?.downcast_ref()
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind.says())?;
        if let Some(name) = &self.0.name {
            let (noun, name) = name.noun();
            write!(f, " ({noun} `{name}`)")?;
        }
        if let Some(detail) = &self.0.detail {
            write!(f, ": {detail}")?;
        }
        match &self.0.source {
            Some(source) if f.alternate() => write!(f, ": {source}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LockError");
        debug.field("kind", &self.0.kind);
        debug.field("says", &self.0.kind.says());
        if let Some(name) = &self.0.name {
            debug.field("name", name);
        }
        if let Some(detail) = &self.0.detail {
            debug.field("detail", detail);
        }
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// Creates the error of a store that finds no suitable runtime. `detail` says what is missing.
pub fn no_runtime(detail: impl Into<String>) -> LockError {
    LockError::new(LockErrorKind::NoRuntime).detail(detail)
}

impl From<NameError> for LockError {
    fn from(e: NameError) -> Self {
        Self::new(LockErrorKind::InvalidName).because(Arc::new(e))
    }
}

impl From<OptionsError> for LockError {
    fn from(e: OptionsError) -> Self {
        Self::new(LockErrorKind::InvalidOptions).because(Arc::new(e))
    }
}

impl From<SetError> for LockError {
    fn from(e: SetError) -> Self {
        Self::new(LockErrorKind::InvalidSet).because(Arc::new(e))
    }
}

impl From<MemberLost> for LockError {
    fn from(lost: MemberLost) -> Self {
        Self::new(LockErrorKind::MemberLost).of(&lost.name).because(Arc::new(lost.reason))
    }
}

impl From<BackendError> for LockError {
    fn from(e: BackendError) -> Self {
        Self::backend(LockErrorKind::of(&e), Some(Arc::new(e)))
    }
}

impl From<Unconfirmed> for LockError {
    fn from(_: Unconfirmed) -> Self {
        Self::new(LockErrorKind::Unconfirmed)
    }
}

/// The reason why [`Lock::run`](crate::Lock::run) or [`LockSet::run`](crate::set::LockSet::run) returns no value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired; the work never started.
    NotAcquired(LockError),
    /// The lock was lost while the work was running. The work was dropped, or its value cannot be trusted.
    Lost(LostReason),
    /// A lock of the set was lost while the work was running. The work was dropped, or its value cannot be trusted.
    MemberLost(MemberLost),
}

impl RunError {
    /// Returns the kind of the acquisition error, or [`Lost`](LockErrorKind::Lost) or
    /// [`MemberLost`](LockErrorKind::MemberLost) if a lock was lost while the work was running.
    #[must_use]
    pub fn kind(&self) -> LockErrorKind {
        match self {
            Self::NotAcquired(error) => error.kind(),
            Self::Lost(_) => LockErrorKind::Lost,
            Self::MemberLost(_) => LockErrorKind::MemberLost,
        }
    }

    /// Returns `true` if the work never started and the same call may succeed later without intervention. Work that
    /// started may be half done, so the caller has to decide whether it can be repeated.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotAcquired(error) => error.is_retryable(),
            Self::Lost(_) | Self::MemberLost(_) => false,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcquired(_) => write!(f, "the work was not started"),
            Self::Lost(reason) => write!(f, "the lock was lost while the work was running: {reason}"),
            Self::MemberLost(MemberLost { name, reason }) => {
                write!(f, "the lock `{name}` was lost while the work was running: {reason}")
            }
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotAcquired(error) => Some(error),
            Self::Lost(_) | Self::MemberLost(_) => None,
        }
    }
}

impl From<LockError> for RunError {
    fn from(e: LockError) -> Self {
        Self::NotAcquired(e)
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lease ended without a renewal",
            Self::Gone => "the store no longer had the lease",
            Self::MaxHold => "the hold reached its `max_hold`",
            Self::Unclaimed => "the acquire future was not polled for half a lease",
            Self::ShutDown => "the lock factory was shut down",
        })
    }
}

impl Error for LostReason {}
