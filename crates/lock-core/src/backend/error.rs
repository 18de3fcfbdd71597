//! Errors of a store, and whether the failed operation may have been applied.

use super::votes::Votes;
use std::{error::Error, fmt, sync::Arc};

/// The error returned by a failed backend operation.
#[derive(Debug, Clone)]
pub struct BackendError {
    kind: BackendErrorKind,
    applied: Applied,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
    votes: Votes,
}

/// Indicates whether a failed operation may have been applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied {
    /// Certainly not applied: it was never sent, or was refused before it started.
    No,
    /// Unknown: it was sent and not answered, or it failed midway.
    Unknown,
}

/// The kind of a [`BackendError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendErrorKind {
    /// The store is unreachable or cannot serve requests now. Retry.
    Unavailable,
    /// No reply within the operation timeout. Retry.
    Timeout,
    /// The login failed or permissions are missing. Retrying does not help until that is corrected.
    Denied,
    /// The lock's key contains data that is not a lock.
    WrongType,
    /// The store is configured in a way that makes locks unreliable.
    Misconfigured,
    /// This backend does not support the request.
    Unsupported,
    /// The reply could not be understood.
    Protocol,
}

impl BackendError {
    /// Creates an error of this kind. `message` is one clause that says what failed; it must not contain secrets.
    pub fn new(kind: BackendErrorKind, applied: Applied, message: impl Into<String>) -> Self {
        Self { kind, applied, message: message.into(), source: None, votes: Votes::none() }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Adds the replies of a quorum's nodes.
    #[must_use]
    pub fn with_votes(mut self, votes: Votes) -> Self {
        self.votes = votes;
        self
    }

    /// Sets whether the operation may have been applied.
    #[must_use]
    pub fn with_applied(mut self, applied: Applied) -> Self {
        self.applied = applied;
        self
    }

    /// Creates the error of a store for a [permit](super::AcquireMode::Permit) that it does not have. A factory sends it no
    /// such request.
    #[must_use]
    pub fn without_permits(store: &str) -> Self {
        let message = format!(
            "{store} has no semaphores, read-write locks and fair locks: use Redis, PostgreSQL or SQLite"
        );
        Self::new(BackendErrorKind::Unsupported, Applied::No, message)
    }

    /// Returns the replies of the nodes if the store is a quorum.
    #[must_use]
    pub fn votes(&self) -> &Votes {
        &self.votes
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> BackendErrorKind {
        self.kind
    }

    /// Returns whether the operation may have been applied.
    #[must_use]
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Returns `true` if the same request may succeed later without intervention.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            BackendErrorKind::Unavailable | BackendErrorKind::Timeout | BackendErrorKind::Protocol => true,
            BackendErrorKind::Denied
            | BackendErrorKind::WrongType
            | BackendErrorKind::Misconfigured
            | BackendErrorKind::Unsupported => false,
        }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.votes.is_empty() {
            write!(f, " [{}]", self.votes)?;
        }
        match self.applied {
            Applied::No => Ok(()),
            Applied::Unknown => write!(f, " (the operation may have been applied)"),
        }
    }
}

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|s| &**s as &(dyn Error + 'static))
    }
}
