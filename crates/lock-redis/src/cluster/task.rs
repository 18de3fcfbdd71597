//! The cluster's task, which reads the slots and sends redirected operations.

use super::{Cluster, discover, redirect::follow};
use crate::{client::Client, pauses::jittered, shared::Redirected};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc::UnboundedReceiver, time::sleep};

/// The maximum time between two reads of the slots.
const LOOK: Duration = Duration::from_secs(10);
/// The minimum time between two reads, and the interval during a failover.
const SOON: Duration = Duration::from_millis(200);

pub(super) async fn run<C: Client>(
    cluster: Arc<Cluster<C>>,
    mut redirections: UnboundedReceiver<Redirected>,
) {
    let mut followed = FuturesUnordered::new();
    let looks = looks(&cluster);
    tokio::pin!(looks);
    loop {
        tokio::select! {
            redirected = redirections.recv() => match redirected {
                Some(redirected) => followed.push(follow(&cluster, redirected)),
                None => return,
            },
            Some(()) = followed.next() => {}
            () = &mut looks => return,
        }
    }
}

/// Reads the slots repeatedly, forever.
async fn looks<C: Client>(cluster: &Cluster<C>) {
    loop {
        let is_well = match discover::by_nodes(cluster).await {
            Some(view) => {
                cluster.adopt(&view);
                cluster.is_connected()
            }
            None => false,
        };
        sleep(jittered(SOON)).await;
        let again = if is_well { LOOK } else { SOON };
        tokio::select! {
            () = cluster.look.notified() => {}
            () = sleep(jittered(again)) => {}
        }
    }
}
