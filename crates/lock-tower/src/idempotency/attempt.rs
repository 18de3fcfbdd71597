//! One run of a handler for an idempotency key, and its declaration that work was done.

use http::{StatusCode, response::Parts};
use lock_core::{FencingToken, LockName};

/// One run of a handler for an idempotency key. It is in the request's extensions.
///
/// With axum, extract `Extension<Attempt>`, or `Option<Extension<Attempt>>` where the key is
/// [optional](super::IdempotencyLayer::optional).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    name: LockName,
    token: FencingToken,
    number: u32,
}

impl Attempt {
    /// Creates an attempt, for testing stores.
    #[must_use]
    pub fn new(name: LockName, token: FencingToken, number: u32) -> Self {
        Self { name, token, number }
    }

    /// Returns the name of the record, which is the name of its lock, including the
    /// [prefix](lock_core::LockFactoryBuilder::prefix) of the factory. It contains the scope and the client's key, or
    /// the hash of a key whose encoded form is longer than 255 bytes.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the fencing token of the lock.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns the number of this attempt, starting at 1. If it is above 1, an earlier attempt
    /// ended without a response: its server crashed, its lock was lost, it panicked, or the store did not reply when it
    /// began. That attempt may have done some or all of the work.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

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
    /// payload. From the second [`Attempt`] on, the key stays tied to its payload,
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
