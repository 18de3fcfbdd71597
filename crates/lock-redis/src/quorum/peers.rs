//! The servers behind the addresses of a quorum. A server with two addresses would have two votes.

use crate::{client::Server, connection::Trust, error::misconfigured, sync::lock};
use lock_core::backend::BackendError;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
};

/// The nodes that were accepted, by their positions.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<BTreeMap<usize, Peer>>);

#[derive(Debug)]
struct Peer {
    server: Server,
    run_id: String,
    /// Dropped with the connection on which the run id was read.
    connection: Weak<Trust>,
}

/// The place of a node among the nodes of its quorum.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    pub(super) peers: Arc<Peers>,
    pub(super) position: usize,
}

impl Membership {
    /// Records the server behind the address of this node. Refuses it if it is the server of another node.
    pub(super) fn admit(
        &self,
        server: &Server,
        run_id: &str,
        connection: &Arc<Trust>,
    ) -> Result<(), BackendError> {
        let mut nodes = lock(&self.peers.0);
        nodes.remove(&self.position);
        nodes.retain(|_, node| node.connection.strong_count() > 0);
        if let Some(Peer { server: other, .. }) = nodes.values().find(|node| node.run_id == run_id) {
            return Err(misconfigured(&format!(
                "the quorum nodes {other} and {server} are the same server; use a separate server for each node"
            )));
        }
        let connection = Arc::downgrade(connection);
        nodes.insert(self.position, Peer { server: server.clone(), run_id: run_id.to_owned(), connection });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_has_one_place() {
        let peers = Arc::<Peers>::default();
        let [first, second] = [0, 1].map(|position| Membership { peers: peers.clone(), position });
        let server = |port| Server::Tcp { host: "cache".to_owned(), port };
        let [a, b, c] = [(); 3].map(|()| Arc::default());
        first.admit(&server(1), "run 1", &a).unwrap();
        first.admit(&server(1), "run 1", &b).unwrap();
        let error = second.admit(&server(2), "run 1", &c).unwrap_err().to_string();
        assert!(error.contains("cache:1 and cache:2 are the same server"), "{error}");
        first.admit(&server(1), "run 2", &b).unwrap();
        second.admit(&server(2), "run 1", &c).expect("the first node is another server now");
        first.admit(&server(1), "run 1", &b).unwrap_err();
        drop(c);
        first.admit(&server(1), "run 1", &b).expect("the second node has no connection");
    }
}
