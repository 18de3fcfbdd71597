//! The reasons, each with its status and its words.

use super::{
    kind::{self, ProblemType},
    problem::Details,
};
use crate::key::{KeyError, KeyErrorKind};
use http::StatusCode;
use lock_core::{ErrorKind, LockError, LostReason};

/// Why a request was refused.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Reason {
    /// Another request holds the lock, and the layer does not wait.
    Held,
    /// Others held the lock for the whole time that the layer waits.
    WaitLimit,
    /// Too many wait already, for this key, in this process, or in this layer.
    TooManyWaiters,
    /// Too many detached handlers are still running; see [`DetachedTasks`](crate::DetachedTasks).
    TooManyDetached,
    /// The store does not answer, or refuses.
    Unavailable(LockError),
    /// The lock was lost while the handler ran; the handler was dropped.
    Lost(LostReason),
    /// The lock factory is shut down.
    ShutDown,
    /// The key could not be read from the request.
    Key(KeyError),
    /// The layer or the factory is set up wrongly.
    Misconfigured(LockError),
}

impl Reason {
    /// Why an acquire failed that waited, or did not.
    pub(crate) fn of(error: LockError, waited: Waited) -> Self {
        match (error.kind(), waited) {
            (ErrorKind::Timeout, Waited::Never) => Self::Held,
            (ErrorKind::Timeout, Waited::InVain) => Self::WaitLimit,
            (ErrorKind::TooManyWaiters, _) => Self::TooManyWaiters,
            (ErrorKind::Unavailable | ErrorKind::Backend | ErrorKind::Unconfirmed, _) => {
                Self::Unavailable(error)
            }
            (ErrorKind::ShutDown, _) => Self::ShutDown,
            _ => Self::Misconfigured(error),
        }
    }

    /// The status of the default answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Held => StatusCode::CONFLICT,
            Self::WaitLimit
            | Self::TooManyWaiters
            | Self::TooManyDetached
            | Self::Unavailable(_)
            | Self::Lost(_)
            | Self::ShutDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::Key(error) => match error.kind() {
                KeyErrorKind::Missing | KeyErrorKind::BadRequest => StatusCode::BAD_REQUEST,
                KeyErrorKind::Wiring => StatusCode::INTERNAL_SERVER_ERROR,
                KeyErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            },
            Self::Misconfigured(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// One word for metrics and machines; stable, like the [type](super::Rejection::problem_type) that it ends.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.problem_type().word
    }

    pub(super) fn problem_type(&self) -> ProblemType {
        match self {
            Self::Held => kind::CONTENDED,
            Self::WaitLimit => kind::TIMEOUT,
            Self::TooManyWaiters | Self::TooManyDetached => kind::OVERLOADED,
            Self::Unavailable(_) => kind::BACKEND_ERROR,
            Self::Lost(_) => kind::LOST,
            Self::ShutDown => kind::SHUT_DOWN,
            Self::Key(error) => match error.kind() {
                KeyErrorKind::Missing | KeyErrorKind::BadRequest => kind::BAD_KEY,
                KeyErrorKind::Wiring => kind::MISCONFIGURED,
                KeyErrorKind::Unavailable => kind::KEY_UNAVAILABLE,
            },
            Self::Misconfigured(_) => kind::MISCONFIGURED,
        }
    }

    /// The default answer to a client, with this status.
    pub(super) fn details(&self, status: StatusCode) -> Details<'_> {
        Details::new(status, self.problem_type(), self.detail())
    }

    /// Whether the same request may succeed later, and nothing of it was done before: a client, or a gRPC library on its
    /// own, must not be invited to repeat work that was done in part.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Held => true,
            Self::Lost(_) => false,
            _ => self.status() == StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What the client is told. Nothing of the lock's name, of the store, or of the set-up is in it.
    pub(crate) fn detail(&self) -> &str {
        match self {
            Self::Held => "another request is working on this",
            Self::WaitLimit => "other requests were working on this for too long",
            Self::TooManyWaiters => "too many requests wait for this",
            Self::TooManyDetached => "too much unfinished work is under way",
            Self::Unavailable(_) => "the lock service is not available",
            Self::Lost(_) => "the lock was lost before the work was done: it may have been done in part",
            Self::ShutDown => "the server is shutting down",
            Self::Key(error) => match error.kind() {
                KeyErrorKind::Missing | KeyErrorKind::BadRequest => error.detail(),
                KeyErrorKind::Wiring => "the server is set up wrongly",
                KeyErrorKind::Unavailable => "it could not be found out which lock is needed",
            },
            Self::Misconfigured(_) => "the server is set up wrongly",
        }
    }
}

/// Whether the layer waits for a lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    Never,
    InVain,
}
