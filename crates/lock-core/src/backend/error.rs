//! How an operation of a store fails, and whether it may have happened all the same.

use super::votes::Votes;
use std::{error::Error, fmt, sync::Arc};

/// An operation of a backend failed.
#[derive(Debug, Clone)]
pub struct BackendError {
    kind: BackendErrorKind,
    applied: Applied,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
    votes: Votes,
}

/// Whether a failed operation may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied {
    /// It certainly was not: it was never sent, or refused before it started.
    No,
    /// Nobody knows: it was sent and no answer came, or it failed midway.
    Unknown,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendErrorKind {
    /// The store cannot be reached, or cannot serve now. Trying again is right.
    Unavailable,
    /// No answer within the operation timeout. Trying again is right.
    Timeout,
    /// Login or rights are missing. Trying again is useless until somebody changes them.
    Denied,
    /// The store keeps something under the lock's key that is no lock.
    WrongType,
    /// The store is set up such that locks cannot work on it.
    Misconfigured,
    /// The request is one that this backend cannot serve.
    Unsupported,
    /// The answer made no sense.
    Protocol,
}

impl BackendError {
    /// A failure of this kind; `message` is one clause that says what was attempted, without secrets.
    pub fn new(kind: BackendErrorKind, applied: Applied, message: impl Into<String>) -> Self {
        Self { kind, applied, message: message.into(), source: None, votes: Votes::none() }
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Keeps the answers of the nodes of a quorum.
    #[must_use]
    pub fn with_votes(mut self, votes: Votes) -> Self {
        self.votes = votes;
        self
    }

    /// The answers of the nodes, if the store is a quorum.
    #[must_use]
    pub fn votes(&self) -> &Votes {
        &self.votes
    }

    /// What kind of failure.
    #[must_use]
    pub fn kind(&self) -> BackendErrorKind {
        self.kind
    }

    /// Whether the operation may have been carried out.
    #[must_use]
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Whether the same request may succeed later without anybody changing something.
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
            Applied::Unknown => write!(f, " (it may have been carried out)"),
        }
    }
}

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|s| &**s as &(dyn Error + 'static))
    }
}
