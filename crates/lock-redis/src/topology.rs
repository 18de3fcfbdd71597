//! The kinds of deployments: one server, a master that sentinels watch, a cluster, a quorum.

use crate::client::{Credentials, Endpoint, Server};
use std::time::Duration;

/// The deployment behind an [`Address`](crate::Address).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One server.
    Standalone(Endpoint),
    /// The master that sentinels watch; it is followed by name when another server is promoted.
    Sentinel(SentinelAddress),
    /// The cluster of which these are some nodes; the others are found by them.
    Cluster(Vec<Server>),
    /// Independent servers of which a majority decides; see
    /// [`connect_quorum`](crate::RedisBackendBuilder::connect_quorum).
    Quorum(QuorumAddress),
}

/// The nodes of a quorum, and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumAddress {
    /// The nodes, each a master of its own.
    pub nodes: Vec<Endpoint>,
    /// The longest lease, which has to be the same on all clients; without one it is 30 s.
    pub max_lease: Option<Duration>,
    /// Declares that no node ever loses an answered write; see
    /// [`Member::durable`](lock_core::quorum::Member::durable).
    pub durable: bool,
}

/// Sentinels, and the master that they watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelAddress {
    /// The sentinels.
    pub sentinels: Vec<Server>,
    /// The name of the master, as in the line `sentinel monitor` of their configuration.
    pub master: String,
    /// The login at the sentinels, which is not that at the master.
    pub credentials: Credentials,
    /// The database of the master; without one it is database 0.
    pub database: Option<u8>,
}
