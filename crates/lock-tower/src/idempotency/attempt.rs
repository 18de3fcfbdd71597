//! One run of a handler for an idempotency key.

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
