//! The responses that are stored, depending on whether the work was done.

use http::{StatusCode, response::Parts};

/// Declares whether the work of a request was done, as an extension of its response. With axum:
/// `(Extension(Execution::NotStarted), response)`.
///
/// Without this extension the status decides: a 4xx except 402 and 408 means [`NotStarted`](Self::NotStarted), and
/// everything else [`Done`](Self::Done). A 408 and a 500 are also stored: the work may have been done before the
/// failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Execution {
    /// The response is final: it is stored, and replayed to each retry.
    Done,
    /// Nothing was done: the response is not stored, and the key is free again, even for another payload. From the
    /// second [`Attempt`](super::Attempt) on, the key stays tied to its payload, since an earlier attempt may have done
    /// some of the work.
    NotStarted,
}

impl Execution {
    pub(super) fn of(head: &Parts) -> Self {
        head.extensions.get().copied().unwrap_or_else(|| match head.status {
            // Of a declined payment, and of a timeout that stopped a handler halfway.
            StatusCode::PAYMENT_REQUIRED | StatusCode::REQUEST_TIMEOUT => Self::Done,
            status if status.is_client_error() => Self::NotStarted,
            _ => Self::Done,
        })
    }
}
