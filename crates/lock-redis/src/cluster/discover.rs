//! Slot discovery: first through the addresses that the program supplied, later through the nodes themselves.

use super::{Cluster, Settings, slots::View};
use crate::{
    client::{Client, Command, Connection, DialError, Endpoint, Events, Server},
    error,
    keys::Keys,
    secret::Secrets,
};
use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use lock_core::backend::{BackendError, ProcessId};
use std::{sync::Arc, time::Duration};
use tokio::{sync::SetOnce, time::timeout};

/// The maximum number of nodes queried concurrently.
const ASKED: usize = 7;
/// The time limit for their replies.
const ANSWER: Duration = Duration::from_millis(500);

/// Queries the addresses supplied by the program. A single reply with the slots is enough.
pub(super) async fn by_seeds<C: Client>(settings: &Settings<C>) -> Result<View, BackendError> {
    let mut answers: FuturesUnordered<_> = settings.seeds.iter().map(|seed| ask(settings, seed)).collect();
    let mut errors = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(view) => return Ok(view),
            Err(error) => errors.push(error),
        }
    }
    Err(error::no_cluster(errors))
}

async fn ask<C: Client>(settings: &Settings<C>, seed: &Server) -> Result<View, BackendError> {
    let failed = |error: &DialError| error::connecting(seed, settings.client.is_secured(), error);
    let question = async {
        let credentials = settings.login.get(seed).await?;
        let secrets = Secrets::of(&credentials);
        let events = Events::new(Arc::new(SetOnce::new()), None);
        let endpoint = Endpoint { server: seed.clone(), database: None };
        // Boxed, since the future may be large.
        let dial = Box::pin(settings.client.dial(&endpoint, &credentials, events));
        let connection = dial.await.map_err(|error| failed(&secrets.hide_in_dial(error)))?;
        let reply = connection.call(Command::cluster_slots()).await;
        let reply = reply.map_err(|error| error::asking_for_slots(seed, &secrets.hide_in_call(error)))?;
        match View::read(&reply, seed) {
            Some(view) if !view.is_empty() => Ok(view),
            Some(_) => Err(error::without_slots(seed)),
            None => Err(error::unexpected_reply("read the cluster slots").into()),
        }
    };
    let silent = || failed(&DialError::silent(settings.limit));
    timeout(settings.limit, question).await.map_err(|_| silent())?
}

/// Queries some nodes and returns the view shared by more than half of the replies. A node that was
/// down and does not yet know its successor is therefore outvoted.
pub(super) async fn by_nodes<C: Client>(cluster: &Cluster<C>) -> Option<View> {
    let nodes = cluster.nodes();
    let connected = nodes.iter().filter(|node| node.shared.connection.is_up()).take(ASKED);
    let questions = connected.map(async |node| {
        let call = node.shared.connection.call("read the cluster slots", Command::cluster_slots());
        View::read(&timeout(ANSWER, call).await.ok()?.ok()?, &node.server)
    });
    let views: Vec<_> = join_all(questions).await.into_iter().flatten().collect();
    if views.is_empty() {
        return by_seeds(&cluster.settings).await.ok();
    }
    let votes = |view: &View| views.iter().filter(|other| *other == view).count();
    views.iter().find(|view| 2 * votes(view) > views.len()).cloned()
}

impl View {
    /// Returns the masters, each once.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        let mut servers: Vec<_> = self.ranges().map(|(_, server)| server).collect();
        servers.sort();
        servers.dedup();
        servers.into_iter()
    }

    /// Returns keys that no lock uses, in a slot of this server.
    pub(super) fn reserved_name(&self, server: &Server) -> Keys {
        loop {
            let keys = Keys::reserved(&format!("check:{}", ProcessId::random()));
            let slot = super::slot_of(&keys.lock);
            if self.ranges().any(|(slots, owner)| owner == server && slots.contains(&slot)) {
                return keys;
            }
        }
    }
}
