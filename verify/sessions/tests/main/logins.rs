//! Servers that are not there, and the first connection.

use super::{
    scenarios,
    support::{Tested, is_refused, is_usable},
};
use lock_core::{LockErrorKind, LockFactory};
use lock_testkit::{Cluster, unused_address};
use tokio::task::block_in_place;

scenarios! {
    servers_that_do_not_answer_are_passed_over
    cluster_that_is_not_there_is_unavailable
}

/// The first server of the URL is down, and the second one hangs.
async fn servers_that_do_not_answer_are_passed_over<P: Tested>() {
    let (cluster, hung) = block_in_place(|| (Cluster::<P>::start(1), Cluster::<P>::start(1)));
    block_in_place(|| hung.pause(0));
    let hosts = format!("{},{},{}", unused_address(), hung.address(0), cluster.address(0));
    is_usable::<P>(&P::url(&hosts, "shop", 40)).await;
    block_in_place(|| hung.resume(0));
}

async fn cluster_that_is_not_there_is_unavailable<P: Tested>() {
    let url = P::url(&unused_address().to_string(), "shop", 40);
    is_refused::<P>(&url, LockErrorKind::Unavailable, "Connection refused").await;
    // Nothing was sent, so there is nothing to undo.
    let locks = LockFactory::new(P::CONNECTOR.connect_lazy(&url).unwrap());
    assert!(locks.named("x").unwrap().try_acquire().await.is_err());
    locks.shutdown().await;
}
