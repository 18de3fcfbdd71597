//! Secrets with the client redis-rs.

#[path = "../canaries/mod.rs"]
mod canaries;
mod without_hello;

/// The client under test.
mod client {
    use lock_redis_rs::redis::Client;
    pub(crate) use lock_redis_rs::{
        Address, ConnectWarning, Redis, RedisBackend, RedisBackendBuilder, RedisRs as Library,
    };

    pub(crate) const LIBRARY: &str = "RedisRs";
    /// The source that exports its public types.
    pub(crate) const SOURCE: &str = include_str!("../../../../crates/lock-redis-rs/src/lib.rs");
    /// The command used to log in.
    pub(crate) const LOGIN: &str = "HELLO";
    /// The target of its log records.
    pub(crate) const TARGET: &str = " redis::";
    /// The beginnings of records that it always writes: none.
    pub(crate) const RECORDS: &[&str] = &[];

    /// Creates a builder from an existing client.
    pub(crate) fn of_own(url: &str) -> RedisBackendBuilder {
        RedisBackendBuilder::from_client(&Client::open(url).expect("a URL that both accept"))
            .expect("not refused")
    }
}
