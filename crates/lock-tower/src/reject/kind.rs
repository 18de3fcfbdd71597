//! RFC 9457 problem types, for clients and metrics.

use std::fmt;

/// A problem type. Its name, which also ends its URI, and its title are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProblemType {
    pub(crate) word: &'static str,
    pub(crate) title: &'static str,
}

const fn of(word: &'static str, title: &'static str) -> ProblemType {
    ProblemType { word, title }
}

pub(crate) const CONTENDED: ProblemType = of("contended", "Lock is held");
pub(crate) const TIMEOUT: ProblemType = of("timeout", "Lock was not released in time");
pub(crate) const OVERLOADED: ProblemType = of("overloaded", "Too many requests are waiting or running");
pub(crate) const BACKEND_ERROR: ProblemType = of("backend_error", "Lock service is unavailable");
pub(crate) const LOST: ProblemType = of("lost", "Lock was lost");
pub(crate) const LOST_BEFORE_WORK: ProblemType =
    of("lost_before_work", "Lock was lost before the work began");
pub(crate) const SHUT_DOWN: ProblemType = of("shut_down", "Server is shutting down");
pub(crate) const BAD_KEY: ProblemType = of("bad_key", "Lock key is missing or malformed");
pub(crate) const KEY_UNAVAILABLE: ProblemType = of("key_unavailable", "Lock key could not be determined");
pub(crate) const NO_ROUTE: ProblemType = of("no_route", "No route");
pub(crate) const MISCONFIGURED: ProblemType = of("misconfigured", "Server is misconfigured");
pub(crate) const UPLOAD_TOO_LARGE: ProblemType = of("upload_too_large", "Request body is too large");
pub(crate) const UPLOAD_TIMEOUT: ProblemType = of("upload_timeout", "Request body did not arrive in time");
pub(crate) const UPLOAD_FAILED: ProblemType = of("upload_failed", "Request body could not be read");
pub(crate) const BUFFER_FULL: ProblemType = of("buffer_full", "Too many request bytes are waiting");
pub(crate) const KEY_REUSED: ProblemType = of("key_reused", "Idempotency key was used for another request");
pub(crate) const RECORDS_UNAVAILABLE: ProblemType =
    of("records_unavailable", "Idempotency records are unavailable");
#[cfg(feature = "idempotency")]
pub(crate) const ANSWER_NOT_KEPT: ProblemType = of("answer_not_kept", "Answer was not kept");

/// Formats the type's URI, which does not resolve because this library has no domain. The URI
/// `about:blank` would tell a client no more than the status does.
impl fmt::Display for ProblemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "urn:problem-type:distlock:{}", self.word)
    }
}
