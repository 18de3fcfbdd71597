//! Locks and ledger with the client redis-rs.

mod own;
#[path = "../suite/mod.rs"]
mod suite;

/// The client under test.
mod client {
    #[cfg(feature = "tls")]
    pub(crate) use lock_redis_rs::Tls;
    pub(crate) use lock_redis_rs::{
        ConnectWarning, Redis, RedisBackend, RedisBackendBuilder, RedisRs as Library,
    };

    /// The errors of a server before Redis 6: without a login, with a password, with a user.
    pub(crate) const BEFORE_REDIS_6: [&str; 3] = ["unknown command HELLO (is the server older than 6.0"; 3];
}
