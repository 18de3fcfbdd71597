//! Locks and ledger with the client fred.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod own;
// The claims of the ledger do not depend on the client, so they are only tested here.
mod same_runs;
#[path = "../suite/mod.rs"]
mod suite;

/// The client under test.
mod client {
    #[cfg(feature = "tls")]
    pub(crate) use lock_fred::Tls;
    pub(crate) use lock_fred::{ConnectWarning, Fred as Library, Redis, RedisBackend, RedisBackendBuilder};

    /// The errors of a server before Redis 6: without a login, with a password, with a user.
    pub(crate) const BEFORE_REDIS_6: [&str; 3] =
        ["version \"5.0.14\" is too old", "version \"5.0.14\" is too old", "too old to have users"];
}
