//! A rejected request, and its possible answers.

use super::{
    body::{RejectionBody, boxed},
    grpc,
    hash::KeyHash,
    reason::RejectReason,
    retry,
};
use http::{Response, StatusCode};
use std::time::Duration;

/// A rejected request. [`LockLayer::on_reject`](crate::LockLayer::on_reject) turns it into an answer.
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
        let retry_after = reason.may_pass().then(|| retry::after(wait));
        Self { reason, status, key, retry_after }
    }

    /// Returns the reason. A [`LockError`](lock_core::LockError) in it names the lock: it is for logs, not for
    /// clients.
    #[must_use]
    pub fn reason(&self) -> &RejectReason {
        &self.reason
    }

    /// Returns the URI of the problem's type, such as `urn:problem-type:distlock:contended`. It ends with the name of
    /// the [reason](RejectReason::as_str). It is stable, so that clients can branch on it. It does not resolve.
    #[must_use]
    pub fn problem_type(&self) -> String {
        self.reason.problem_type().to_string()
    }

    /// Returns the title of the problem's type, the same for each problem of the type.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.reason.problem_type().title
    }

    /// Returns the status of the default answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Replaces the status of the default answer, in its head and in its body.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Returns a hash of the key, if the key was known. It shows that two rejections of this process concern the same
    /// lock, or, with a [`key_hash_secret`](crate::LockLayer::key_hash_secret), two rejections of several processes.
    #[must_use]
    pub fn key_hash(&self) -> Option<KeyHash> {
        self.key
    }

    /// Returns the time after which to retry, if that may help: one to two times the wait of the layer, at least a
    /// second. It is random, so that requests that were rejected together are not retried together.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the default answer: `application/problem+json`, with `Retry-After` if a retry may help.
    ///
    /// ```json
    /// {
    ///   "type": "urn:problem-type:distlock:contended",
    ///   "title": "Lock is held",
    ///   "status": 409,
    ///   "detail": "another request is working on this",
    ///   "reason": "contended",
    ///   "retry_after_ms": 1200,
    ///   "key_hash": "700a876097324d44"
    /// }
    /// ```
    #[must_use]
    pub fn into_response(self) -> Response<RejectionBody> {
        let Self { reason, status, key, retry_after } = &self;
        reason.details(*status).about(*key, *retry_after).into_response().map(boxed)
    }

    /// Returns a trailers-only answer for gRPC clients: `grpc-status` and `grpc-message` in the head, no body, and
    /// `grpc-retry-pushback-ms` if a retry may help.
    #[must_use]
    pub fn into_grpc_response(self) -> Response<RejectionBody> {
        grpc::trailers_only(&self.reason, self.retry_after)
    }
}
