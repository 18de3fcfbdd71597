//! Secrets with the client fred.

#[path = "../canaries/mod.rs"]
mod canaries;
mod without_hello;

/// The client under test.
mod client {
    use lock_fred::fred::types::config::Config;
    pub(crate) use lock_fred::{
        Address, ConnectWarning, Fred as Library, Redis, RedisBackend, RedisBackendBuilder,
    };

    pub(crate) const LIBRARY: &str = "Fred";
    /// The source that exports its public types.
    pub(crate) const SOURCE: &str = include_str!("../../../../crates/lock-fred/src/lib.rs");
    /// The command used to log in.
    pub(crate) const LOGIN: &str = "AUTH";
    /// The target of its log records.
    pub(crate) const TARGET: &str = " fred::";
    /// The beginnings of records that it always writes.
    pub(crate) const RECORDS: &[&str] = &["log TRACE fred::", "log DEBUG fred::"];

    /// Creates a builder from an existing configuration.
    pub(crate) fn of_own(url: &str) -> RedisBackendBuilder {
        RedisBackendBuilder::from_client(&Config::from_url(url).expect("a URL that both accept"))
            .expect("not refused")
    }
}
