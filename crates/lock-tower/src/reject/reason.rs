//! The reasons of rejections, with their statuses, problem types (RFC 9457) and texts.

use crate::key::KeyError;
use http::StatusCode;
use lock_core::{LockError, LockErrorKind, LostReason, set::SetError};
use std::{error::Error, fmt, time::Duration};

// The codes of gRPC.
const INVALID_ARGUMENT: i32 = 3;
const RESOURCE_EXHAUSTED: i32 = 8;
const ABORTED: i32 = 10;
const UNIMPLEMENTED: i32 = 12;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

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
            | Self::ShutDown
            | Self::Key(KeyError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Key(KeyError::Missing(_) | KeyError::BadRequest(_)) => StatusCode::BAD_REQUEST,
            Self::Key(KeyError::NoRoute) => StatusCode::NOT_FOUND,
            Self::Key(KeyError::Misconfigured(_)) | Self::Misconfigured(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    /// Returns the `grpc-status` of the response for gRPC clients.
    pub(super) fn grpc_status(&self) -> i32 {
        match self {
            Self::Contended | Self::Lost(_) => ABORTED,
            Self::TooManyWaiters | Self::TooManyDetached => RESOURCE_EXHAUSTED,
            Self::Timeout
            | Self::Unavailable(_)
            | Self::RecordsUnavailable
            | Self::LostBeforeWork(_)
            | Self::ShutDown
            | Self::Key(KeyError::Unavailable(_)) => UNAVAILABLE,
            Self::KeyReused | Self::Key(KeyError::Missing(_) | KeyError::BadRequest(_)) => INVALID_ARGUMENT,
            Self::Key(KeyError::NoRoute) => UNIMPLEMENTED,
            Self::Key(KeyError::Misconfigured(_)) | Self::Misconfigured(_) => INTERNAL,
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
            Self::Contended => ProblemType::CONTENDED,
            Self::Timeout => ProblemType::TIMEOUT,
            Self::TooManyWaiters | Self::TooManyDetached => ProblemType::OVERLOADED,
            Self::Unavailable(_) => ProblemType::BACKEND_ERROR,
            Self::Lost(_) => ProblemType::LOST,
            Self::LostBeforeWork(_) => ProblemType::LOST_BEFORE_WORK,
            Self::ShutDown => ProblemType::SHUT_DOWN,
            Self::Key(KeyError::Missing(_) | KeyError::BadRequest(_)) => ProblemType::BAD_KEY,
            Self::Key(KeyError::Unavailable(_)) => ProblemType::KEY_UNAVAILABLE,
            Self::Key(KeyError::NoRoute) => ProblemType::NO_ROUTE,
            Self::Key(KeyError::Misconfigured(_)) | Self::Misconfigured(_) => ProblemType::MISCONFIGURED,
            Self::KeyReused => ProblemType::KEY_REUSED,
            Self::RecordsUnavailable => ProblemType::RECORDS_UNAVAILABLE,
        }
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
            Self::Key(error @ (KeyError::Missing(_) | KeyError::BadRequest(_) | KeyError::NoRoute)) => {
                error.detail()
            }
            Self::Key(KeyError::Unavailable(_)) => "the lock key could not be determined",
            Self::Key(KeyError::Misconfigured(_)) | Self::Misconfigured(_) => "the server is misconfigured",
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

/// A problem type. Its name, which also ends its URI, and its title are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProblemType {
    pub(crate) word: &'static str,
    pub(crate) title: &'static str,
}

impl ProblemType {
    pub(crate) const CONTENDED: Self = Self::new("contended", "Lock is held");
    pub(crate) const TIMEOUT: Self = Self::new("timeout", "Lock was not released in time");
    pub(crate) const OVERLOADED: Self = Self::new("overloaded", "Too many requests are waiting or running");
    pub(crate) const BACKEND_ERROR: Self = Self::new("backend_error", "Lock service is unavailable");
    pub(crate) const LOST: Self = Self::new("lost", "Lock was lost");
    pub(crate) const LOST_BEFORE_WORK: Self =
        Self::new("lost_before_work", "Lock was lost before the work began");
    pub(crate) const SHUT_DOWN: Self = Self::new("shut_down", "Server is shutting down");
    pub(crate) const BAD_KEY: Self = Self::new("bad_key", "Lock key is missing or malformed");
    pub(crate) const KEY_UNAVAILABLE: Self = Self::new("key_unavailable", "Lock key could not be determined");
    pub(crate) const NO_ROUTE: Self = Self::new("no_route", "No route");
    pub(crate) const MISCONFIGURED: Self = Self::new("misconfigured", "Server is misconfigured");
    pub(crate) const UPLOAD_TOO_LARGE: Self = Self::new("upload_too_large", "Request body is too large");
    pub(crate) const UPLOAD_TIMEOUT: Self =
        Self::new("upload_timeout", "Request body did not arrive in time");
    pub(crate) const UPLOAD_FAILED: Self = Self::new("upload_failed", "Request body could not be read");
    pub(crate) const BUFFER_FULL: Self = Self::new("buffer_full", "Too many request bytes are waiting");
    pub(crate) const KEY_REUSED: Self =
        Self::new("key_reused", "Idempotency key was used for another request");
    pub(crate) const RECORDS_UNAVAILABLE: Self =
        Self::new("records_unavailable", "Idempotency records are unavailable");
    #[cfg(feature = "idempotency")]
    pub(crate) const ANSWER_NOT_KEPT: Self = Self::new("answer_not_kept", "Answer was not kept");

    const fn new(word: &'static str, title: &'static str) -> Self {
        Self { word, title }
    }
}

/// Formats the type's URI, which does not resolve because this library has no domain. The URI
/// `about:blank` would tell a client no more than the status does.
impl fmt::Display for ProblemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "urn:problem-type:distlock:{}", self.word)
    }
}
