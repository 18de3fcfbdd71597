//! Redis deployments: one server, a master with sentinels, a cluster, or a quorum.

use crate::client::{Credentials, Endpoint, Server};
use std::time::Duration;

/// The deployment behind an [`Address`](crate::Address).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One server.
    Standalone(Endpoint),
    /// The master reported by the sentinels. If another server is promoted, the connections move to
    /// it.
    Sentinel(SentinelAddress),
    /// A cluster, given by some of its nodes. The others are discovered through them.
    Cluster(Vec<Server>),
    /// Independent servers that decide by majority; see
    /// [`connect_quorum`](crate::RedisBackendBuilder::connect_quorum).
    Quorum(QuorumAddress),
}

/// The nodes and settings of a quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumAddress {
    /// The nodes, each an independent master.
    pub nodes: Vec<Endpoint>,
    /// The longest lease, which must be the same on all clients. `None` means 30 s.
    pub max_lease: Option<Duration>,
    /// `true` declares that no node loses a write that it has acknowledged; see
    /// [`Member::durable`](lock_core::quorum::Member::durable).
    pub durable: bool,
}

/// Sentinels and the master they monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelAddress {
    /// The sentinels.
    pub sentinels: Vec<Server>,
    /// The name of the master, as in the `sentinel monitor` line of the sentinels' configuration.
    pub master: String,
    /// The login for the sentinels. The master has a separate login.
    pub credentials: Credentials,
    /// The database on the master. `None` means database 0.
    pub database: Option<u8>,
}
