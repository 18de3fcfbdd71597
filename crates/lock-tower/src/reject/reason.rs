//! Rejection reasons, with their statuses and texts.

use super::{
    kind::{self, ProblemType},
    problem::Details,
};
use crate::key::{KeyError, KeyErrorKind};
use http::StatusCode;
use lock_core::{LockError, LockErrorKind, LostReason, set::SetError};
use std::{error::Error, time::Duration};

/// The reason why a request was rejected.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RejectReason {
    /// Another request holds the lock, and the layer does not wait.
    Contended,
    /// Other requests held the lock for the entire [`wait`](crate::LockLayer::wait).
    Timeout,
    /// Too many requests are already waiting: for this key, in this process, or in this layer.
    TooManyWaiters,
    /// Too many detached handlers are still running; see [`DetachedTasks`](crate::DetachedTasks).
    TooManyDetached,
    /// The store did not respond, or returned an error.
    Unavailable(LockError),
    /// The lock was lost while the handler ran; the handler was dropped. Part of the work may have been done.
    Lost(LostReason),
    /// The lock was lost before the handler was called, while the store of the idempotency records was asked. Nothing
    /// was done; see `IdempotencyLayer`.
    LostBeforeWork(LostReason),
    /// The lock factory is shut down.
    ShutDown,
    /// The key could not be read from the request.
    Key(KeyError),
    /// The layer or the factory is misconfigured.
    Misconfigured(LockError),
    /// The idempotency key was used for another request; see `IdempotencyLayer`.
    KeyReused,
    /// The idempotency store is full, did not respond, or returned an error; see
    /// `IdempotencyLayer`.
    RecordsUnavailable,
}

impl RejectReason {
    /// Converts the error of an acquire that waited at most `wait`.
    pub(crate) fn of(error: LockError, wait: Duration) -> Self {
        match error.kind() {
            LockErrorKind::Timeout if wait.is_zero() => Self::Contended,
            LockErrorKind::Timeout => Self::Timeout,
            LockErrorKind::TooManyWaiters => Self::TooManyWaiters,
            LockErrorKind::Unavailable
            | LockErrorKind::Backend
            | LockErrorKind::Unconfirmed
            | LockErrorKind::MemberLost => Self::Unavailable(error),
            // Keys are valid names, so only the factory's prefix can make one invalid.
            LockErrorKind::InvalidName => Self::Key(KeyError::bad_request("the key is too long")),
            // A layer's keys were counted when it was built, so these names come from a request
            // value.
            LockErrorKind::InvalidSet if is_of_number(&error) => {
                Self::Key(KeyError::bad_request("the key has no names, or too many"))
            }
            LockErrorKind::ShutDown => Self::ShutDown,
            _ => Self::Misconfigured(error),
        }
    }

    /// Returns the status of the default response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Contended => StatusCode::CONFLICT,
            Self::Timeout
            | Self::TooManyWaiters
            | Self::TooManyDetached
            | Self::Unavailable(_)
            | Self::Lost(_)
            | Self::LostBeforeWork(_)
            | Self::RecordsUnavailable
            | Self::ShutDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Key(error) => match error.kind() {
                KeyErrorKind::Missing | KeyErrorKind::BadRequest => StatusCode::BAD_REQUEST,
                KeyErrorKind::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
                KeyErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                KeyErrorKind::NoRoute => StatusCode::NOT_FOUND,
            },
            Self::Misconfigured(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns a short name for metrics and programs. It is stable, like the
    /// [problem type](crate::Rejection::problem_type) that ends with it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.problem_type().word
    }

    pub(super) fn problem_type(&self) -> ProblemType {
        match self {
            Self::Contended => kind::CONTENDED,
            Self::Timeout => kind::TIMEOUT,
            Self::TooManyWaiters | Self::TooManyDetached => kind::OVERLOADED,
            Self::Unavailable(_) => kind::BACKEND_ERROR,
            Self::Lost(_) => kind::LOST,
            Self::LostBeforeWork(_) => kind::LOST_BEFORE_WORK,
            Self::ShutDown => kind::SHUT_DOWN,
            Self::Key(error) => match error.kind() {
                KeyErrorKind::Missing | KeyErrorKind::BadRequest => kind::BAD_KEY,
                KeyErrorKind::Misconfigured => kind::MISCONFIGURED,
                KeyErrorKind::Unavailable => kind::KEY_UNAVAILABLE,
                KeyErrorKind::NoRoute => kind::NO_ROUTE,
            },
            Self::Misconfigured(_) => kind::MISCONFIGURED,
            Self::KeyReused => kind::KEY_REUSED,
            Self::RecordsUnavailable => kind::RECORDS_UNAVAILABLE,
        }
    }

    /// Returns the details of the default response, with this status.
    pub(super) fn details(&self, status: StatusCode) -> Details<'_> {
        Details::new(status, self.problem_type(), self.detail())
    }

    /// Returns `true` if the same request may succeed later and none of its work was done. Clients,
    /// and gRPC libraries that retry automatically, must not repeat partially completed work.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Contended => true,
            Self::Lost(_) => false,
            _ => self.status() == StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the message for the client, without the lock's name, the store or the configuration.
    pub(crate) fn detail(&self) -> &str {
        match self {
            Self::Contended => "another request is working on this resource",
            Self::Timeout => "this resource was locked by other requests for the entire waiting time",
            Self::TooManyWaiters => "too many requests are waiting",
            Self::TooManyDetached => "too many handlers are still running",
            Self::Unavailable(_) => "the lock service is not available",
            Self::Lost(_) => {
                "the lock was lost before the work was complete: part of the work may have been done"
            }
            Self::LostBeforeWork(_) => "the lock was lost before the work began: this request did nothing",
            Self::ShutDown => "the server is shutting down",
            Self::Key(error) => match error.kind() {
                KeyErrorKind::Missing | KeyErrorKind::BadRequest | KeyErrorKind::NoRoute => error.detail(),
                KeyErrorKind::Misconfigured => "the server is misconfigured",
                KeyErrorKind::Unavailable => "the lock key could not be determined",
            },
            Self::Misconfigured(_) => "the server is misconfigured",
            Self::KeyReused => "this idempotency key was used for another request: send a new key",
            Self::RecordsUnavailable => "the idempotency records are not available",
        }
    }
}

/// Returns `true` for a set with no names or too many. Other set errors are programming errors.
fn is_of_number(error: &LockError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(SetError::Empty | SetError::TooMany { .. }))
}
