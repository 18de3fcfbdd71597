//! A quorum of five Redis servers.

mod forgetful;
mod races;
mod turns;

pub(crate) use self::{forgetful::forgetful_nodes, races::split_votes, turns::failing_nodes};

use lock_testkit::RedisServer;
use std::{net::SocketAddr, sync::Arc};

const NODES: usize = 5;

fn start() -> Vec<Arc<RedisServer>> {
    (0..NODES).map(|_| Arc::new(RedisServer::start())).collect()
}

/// Returns the address of a quorum of these nodes.
fn url(nodes: impl IntoIterator<Item = SocketAddr>, options: &str) -> String {
    let nodes: Vec<_> = nodes.into_iter().map(|node| node.to_string()).collect();
    format!("redlock://{}?{options}", nodes.join(","))
}

fn addresses(servers: &[Arc<RedisServer>]) -> impl Iterator<Item = SocketAddr> {
    servers.iter().map(|server| server.address())
}
