//! The servers that were accepted as nodes of a quorum. A server with two addresses would have two votes.

use crate::{client::Server, clock::Trust, error::misconfigured};
use lock_core::{__private::lock, backend::BackendError, clock::UtcTime};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
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
pub(crate) struct Place {
    pub(super) peers: Arc<Peers>,
    pub(super) position: usize,
}

impl Place {
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

/// A server that was accepted as a node of a quorum.
#[derive(Debug)]
pub(crate) struct AcceptedNode {
    /// The run id of the server, which changes with each restart.
    pub(crate) run_id: String,
    /// `true` if it writes an append-only file. Without one, a crash loses data.
    pub(crate) appends: bool,
    /// The marker of the latest reply with an age.
    seen: Mutex<Option<SeenMarker>>,
}

#[derive(Debug)]
struct SeenMarker {
    text: String,
    age: Duration,
}

impl AcceptedNode {
    pub(crate) fn new(run_id: String, appends: bool) -> Self {
        Self { run_id, appends, seen: Mutex::new(None) }
    }

    /// Returns the node's marker if it is known to be at least this old, otherwise the run id. The server compares the
    /// whole marker with its own more cheaply than it computes the age.
    pub(crate) fn marker(&self, min_age: Duration) -> String {
        let seen = lock(&self.seen);
        let old_enough = seen.as_ref().filter(|seen| seen.age >= min_age);
        old_enough.map_or(&self.run_id, |seen| &seen.text).clone()
    }

    /// Records the age of the node at this time by its clock.
    pub(crate) fn has_age(&self, now: UtcTime, age: Duration) {
        let since = now.as_micros().saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        *lock(&self.seen) = Some(SeenMarker { text: format!("{} {since}", self.run_id), age });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_has_one_place() {
        let peers = Arc::<Peers>::default();
        let [first, second] = [0, 1].map(|position| Place { peers: peers.clone(), position });
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

    #[test]
    fn marker_is_sent_once_it_was_seen_to_be_old_enough() {
        let (node, second) = (AcceptedNode::new("run".to_owned(), false), Duration::from_secs(1));
        assert_eq!(node.marker(second), "run");
        node.has_age(UtcTime::from_micros(5_000_000), second);
        assert_eq!(node.marker(second), "run 4000000");
        assert_eq!(node.marker(2 * second), "run", "it was not seen to be as old as that");
        node.has_age(UtcTime::from_micros(6_000_000), Duration::ZERO);
        assert_eq!(node.marker(second), "run", "the data was lost");
    }
}
