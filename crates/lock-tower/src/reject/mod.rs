//! Rejected requests, with their reasons and responses.

mod hash;
mod reason;
mod response;
#[cfg(test)]
mod tests;

pub use hash::KeyHash;
pub use reason::RejectReason;
pub use response::BoxError;

pub(crate) use reason::ProblemType;
pub(crate) use response::{Details, RejectionBody, boxed, not_started};

use crate::key::KeyError;
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use lock_core::{LockError, LockErrorKind, LostReason, NameError, RunError};
use std::time::Duration;

/// A rejected request. [`LockLayer::on_reject`](crate::LockLayer::on_reject) turns it into a response.
///
/// A handler that acquires its own lock can reject requests like a layer, by creating a rejection
/// from the error or from a [`RejectReason`]. With the feature `axum`, it implements
/// `IntoResponse`.
///
/// ```
/// use lock_core::{LockFactory, LockName};
/// use lock_tower::{RejectReason, Rejection};
///
/// async fn order(locks: &LockFactory, sku: &str) -> Result<String, Rejection> {
///     let lock = locks.named(LockName::of(("stock", sku))?)?;
///     let guard = lock.try_acquire().await?.ok_or(RejectReason::Contended)?;
///     // … work, with the fencing token …
///     let token = guard.fencing_token();
///     let _ = guard.release().await; // no `?`: the work is done
///     Ok(format!("sold under token {token}"))
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let locks = LockFactory::new(lock_core::MemoryBackend::new());
/// # let _guard = locks.named("stock:7").unwrap().acquire().await.unwrap();
/// let rejection = order(&locks, "7").await.unwrap_err();
/// assert_eq!(rejection.into_problem_response().status(), 409);
/// # }
/// ```
///
/// Rejections created by handlers are neither logged nor counted, and have no [key
/// hash](Self::key_hash). Reject before doing other work, since the response may suggest a retry.
#[derive(Debug, Clone)]
pub struct Rejection {
    reason: RejectReason,
    status: StatusCode,
    key: Option<KeyHash>,
    retry_after: Option<Duration>,
}

impl Rejection {
    pub(crate) fn new(
        reason: RejectReason,
        status: StatusCode,
        key: Option<KeyHash>,
        wait: Duration,
    ) -> Self {
        let retry_after = reason.may_pass().then(|| response::retry_after(wait));
        Self { reason, status, key, retry_after }
    }

    /// Creates a rejection for a handler, without a layer's key and wait.
    fn of(reason: RejectReason) -> Self {
        let status = reason.status();
        Self::new(reason, status, None, Duration::ZERO)
    }

    /// Returns the reason. A [`LockError`](lock_core::LockError) in it contains the lock's name,
    /// which clients should not see.
    #[must_use]
    pub fn reason(&self) -> &RejectReason {
        &self.reason
    }

    /// Returns the URI of the problem type, such as `urn:problem-type:distlock:contended`. It ends
    /// with the name of the [reason](RejectReason::as_str). It is stable, so clients can branch on
    /// it. It does not resolve.
    #[must_use]
    pub fn problem_type(&self) -> String {
        self.reason.problem_type().to_string()
    }

    /// Returns the title of the problem type, which is the same for every rejection with that type.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.reason.problem_type().title
    }

    /// Returns the status of the default response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Replaces the status of the default response, in its head and in its body.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Returns a hash of the key, if the key was known. Equal hashes mean that rejections of this
    /// process concern the same lock. With a
    /// [`key_hash_secret`](crate::LockLayer::key_hash_secret), this holds across processes.
    #[must_use]
    pub fn key_hash(&self) -> Option<KeyHash> {
        self.key
    }

    /// Returns the delay before a retry, if a retry may help: one to two times the layer's wait, at
    /// least one second. It is randomized to spread the retries of requests that were rejected
    /// together.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the default response: `application/problem+json`, with `Retry-After` if a retry may help.
    ///
    /// ```json
    /// {
    ///   "type": "urn:problem-type:distlock:contended",
    ///   "title": "Lock is held",
    ///   "status": 409,
    ///   "detail": "another request is working on this resource",
    ///   "reason": "contended",
    ///   "retry_after_ms": 1200,
    ///   "key_hash": "700a876097324d44"
    /// }
    /// ```
    #[must_use]
    pub fn into_problem_response(self) -> Response<Full<Bytes>> {
        let Self { reason, status, key, retry_after } = &self;
        let details = Details::new(*status, reason.problem_type(), reason.detail());
        details.about(*key, *retry_after).into_response()
    }

    /// Returns a trailers-only response for gRPC clients: `grpc-status` and `grpc-message` in the head, no body, and
    /// `grpc-retry-pushback-ms` if a retry may help.
    #[must_use]
    pub fn into_grpc_response(self) -> Response<Full<Bytes>> {
        response::trailers_only(&self.reason, self.retry_after)
    }
}

impl From<RejectReason> for Rejection {
    fn from(reason: RejectReason) -> Self {
        Self::of(reason)
    }
}

/// Invalid names, including those that are too long with the factory's prefix, are rejected with 400.
impl From<LockError> for Rejection {
    fn from(error: LockError) -> Self {
        Self::of(match error.kind() {
            LockErrorKind::Timeout => RejectReason::Timeout,
            LockErrorKind::InvalidName => {
                RejectReason::Key(KeyError::bad_request("the key is not a valid name"))
            }
            _ => RejectReason::of(error, Duration::ZERO),
        })
    }
}

impl From<NameError> for Rejection {
    fn from(error: NameError) -> Self {
        LockError::from(error).into()
    }
}

/// Work stopped by a lost lock may be partially complete, so the response does not suggest a retry.
impl From<RunError> for Rejection {
    fn from(error: RunError) -> Self {
        match error {
            RunError::NotAcquired(error) => error.into(),
            RunError::Lost(reason) => Self::of(RejectReason::Lost(reason)),
            RunError::MemberLost(lost) => Self::of(RejectReason::Lost(lost.reason)),
            _ => Self::of(RejectReason::Lost(LostReason::Gone)),
        }
    }
}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Rejection {
    fn into_response(self) -> axum::response::Response {
        self.into_problem_response().map(axum::body::Body::new)
    }
}
