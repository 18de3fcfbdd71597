//! The floor of a quorum: runs the scripts of the hash floor on all nodes at once until a majority has answered. It
//! does not wait for a held lock, and undoes nothing.

use super::{
    Lock, Locks,
    floor::{LEASE_MS, Owners, Script, open},
    nodes,
};
use crate::Result;
use fred::clients::Client;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;

pub(crate) struct QuorumFloor(Arc<Connections>);

struct Connections {
    nodes: Vec<Node>,
    owners: Owners,
}

struct Node {
    client: Client,
    acquire: Script,
    release: Script,
}

#[derive(Clone)]
pub(crate) struct QuorumFloorLock {
    connections: Arc<Connections>,
    name: Arc<str>,
    channel: Arc<str>,
}

impl Locks for QuorumFloor {
    type Lock = QuorumFloorLock;

    async fn connect(url: &str) -> Result<Self> {
        let mut connected = Vec::new();
        for node in nodes(url) {
            let client = open(&node).await?;
            let acquire = Script::load(&client, include_str!("hash_acquire.lua")).await?;
            let release = Script::load(&client, include_str!("hash_release.lua")).await?;
            connected.push(Node { client, acquire, release });
        }
        Ok(Self(Arc::new(Connections { nodes: connected, owners: Owners::new() })))
    }

    fn lock(&self, name: &str) -> Result<QuorumFloorLock> {
        let channel = format!("released:{name}").into();
        Ok(QuorumFloorLock { connections: self.0.clone(), name: name.into(), channel })
    }
}

impl QuorumFloorLock {
    /// Runs one of the scripts on every node, and returns once a majority has given this answer.
    async fn ask(&self, script: fn(&Node) -> &Script, arguments: &[&str], wanted: Option<u64>) -> Result<()> {
        let nodes = &self.connections.nodes;
        let asked = |node| async move {
            script(node).run::<Option<u64>>(&node.client, &[&self.name], arguments).await
        };
        let mut answers: FuturesUnordered<_> = nodes.iter().map(asked).collect();
        let mut votes = 0;
        while let Some(answer) = answers.next().await {
            votes += usize::from(answer? == wanted);
            if votes > nodes.len() / 2 {
                return Ok(());
            }
        }
        Err(format!("{} has no majority, and this floor does not wait", self.name).into())
    }
}

impl Lock for QuorumFloorLock {
    type Held = String;

    async fn acquire(&self) -> Result<String> {
        let owner = self.connections.owners.next();
        self.ask(|node| &node.acquire, &[&owner, LEASE_MS], None).await?;
        Ok(owner)
    }

    async fn release(&self, owner: String) -> Result<()> {
        self.ask(|node| &node.release, &[&owner, LEASE_MS, &self.channel], Some(1)).await
    }
}
