//! The decision to store a response, which depends on the work done.

use http::{StatusCode, response::Parts};

/// A response extension that declares whether the request's work was done. With axum:
/// `(Extension(Execution::NotStarted), response)`.
///
/// Without this extension, the status decides: 4xx except 402 and 408 means
/// [`NotStarted`](Self::NotStarted), and everything else means [`Done`](Self::Done). A 408 or a 500
/// is stored because the work may have been done before the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Execution {
    /// The response is final. It is stored and replayed for each retry.
    Done,
    /// No work was done. The response is not stored, and the key is free again, even for another
    /// payload. From the second [`Attempt`](super::Attempt) on, the key stays tied to its payload,
    /// since an earlier attempt may have done some of the work.
    NotStarted,
}

impl Execution {
    pub(super) fn of(head: &Parts) -> Self {
        head.extensions.get().copied().unwrap_or_else(|| match head.status {
            // A declined payment, and a timeout that stopped a handler halfway.
            StatusCode::PAYMENT_REQUIRED | StatusCode::REQUEST_TIMEOUT => Self::Done,
            status if status.is_client_error() => Self::NotStarted,
            _ => Self::Done,
        })
    }
}
