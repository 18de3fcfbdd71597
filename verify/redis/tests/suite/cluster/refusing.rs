//! Unusable clusters are refused in time, with an error that contains the node and the remedy.

use super::super::{connecting::refused, support::redis};
use lock_core::backend::BackendErrorKind;
use lock_testkit::{RedisCluster, RedisServer, unused_address};

#[tokio::test]
async fn nodes_that_do_not_answer_are_all_named() {
    let (first, second) = (unused_address().to_string(), unused_address().to_string());
    let url = format!("redis-cluster://:canary@{first},{second}");
    for says in [&first, &second, &"none responded".to_owned()] {
        refused(&url, BackendErrorKind::Unavailable, says).await;
    }
}

#[tokio::test]
async fn plain_server_is_refused_as_a_cluster() {
    let server = RedisServer::start();
    let url = format!("redis-cluster://{}", server.address());
    refused(&url, BackendErrorKind::Misconfigured, "it is not a cluster node; write `redis://`").await;
    refused(&url, BackendErrorKind::Misconfigured, &server.address().to_string()).await;
}

#[tokio::test]
async fn node_without_slots_is_refused() {
    let server = RedisServer::builder().config("cluster-enabled", "yes").start();
    let url = format!("redis-cluster://{}", server.address());
    refused(&url, BackendErrorKind::Misconfigured, "no slots are being served").await;
}

#[tokio::test]
async fn missing_login_and_permission_are_named() {
    let cluster = RedisCluster::with(|server| server.user("shop on >canary ~* &* +@all"));
    let url = cluster.url();
    let shop = url.replace("://", "://shop:canary@");
    refused(&url.replace("://", "://shop:canary2@"), BackendErrorKind::Denied, "WRONGPASS").await;
    let last = &cluster.servers()[2];
    for command in ["evalsha", "eval", "info", "cluster", "publish", "subscribe"] {
        // The script reports denied commands in upper case.
        let (command, says) = match (command, last.version().starts_with("6.")) {
            ("publish", true) => ("publish", "(PUBLISH)"),
            ("publish", false) => ("spublish", "(SPUBLISH)"),
            ("subscribe", false) => ("ssubscribe", "'ssubscribe'"),
            (other, _) => (other, other),
        };
        // Otherwise another node would be asked.
        let nodes = if command == "cluster" { cluster.servers() } else { std::slice::from_ref(last) };
        nodes.iter().for_each(|node| {
            node.command(&["SCRIPT", "FLUSH"]);
            node.command(&["ACL", "SETUSER", "shop", &format!("-{command}")]);
        });
        refused(&shop, BackendErrorKind::Denied, says).await;
        nodes.iter().for_each(|node| {
            node.command(&["ACL", "SETUSER", "shop", &format!("+{command}")]);
        });
    }
    redis(&shop).await;
    // One reachable node is enough, at any position.
    redis(&shop.replace('@', &format!("@{},", unused_address()))).await;
    // A replica knows the nodes as well.
    redis(&format!("redis-cluster://shop:canary@{}", cluster.servers()[3].address())).await;
}
