//! Unusable deployments are refused in time, with an error that contains the node and the remedy.

use super::super::{connecting::refused, support::redis};
use lock_core::backend::BackendErrorKind;
use lock_testkit::{RedisSentinels, RedisServer, unused_address};

#[tokio::test]
async fn unknown_master_is_named() {
    let deployment = RedisSentinels::start();
    let url = deployment.url().replace("/main", "/stock");
    refused(&url, BackendErrorKind::Misconfigured, r#"monitor a master named "stock"; use the name"#).await;
    let sentinel = deployment.sentinels()[0].address().to_string();
    refused(&url, BackendErrorKind::Misconfigured, "query the sentinel 127.0.0.1:").await;
    // One of them is enough, at any position.
    for url in [
        format!("redis-sentinel://{},{sentinel}/main", unused_address()),
        format!("redis-sentinel://{sentinel},{}/main", unused_address()),
    ] {
        redis(&url).await;
    }
}

#[tokio::test]
async fn sentinels_that_do_not_answer_are_all_named() {
    let (first, second) = (unused_address().to_string(), unused_address().to_string());
    let url = format!("redis-sentinel://:canary@{first},{second}/main?sentinel_pass=canary");
    for says in [&first, &second, &"no sentinel responded".to_owned()] {
        refused(&url, BackendErrorKind::Unavailable, says).await;
    }
}

#[tokio::test]
async fn missing_sentinel_password_is_reported() {
    let deployment = RedisSentinels::with(|server| server, |sentinel| sentinel.password("canary"));
    let url = deployment.url();
    let remedy = "`?sentinel_user=…&sentinel_pass=…`";
    refused(&url, BackendErrorKind::Denied, remedy).await;
    refused(&format!("{url}?sentinel_pass=canary2"), BackendErrorKind::Denied, remedy).await;
    redis(&format!("{url}?sentinel_pass=canary")).await;
}

#[tokio::test]
async fn logins_of_master_and_sentinels_are_separate() {
    let deployment = RedisSentinels::with(|server| server.password("canary"), |sentinel| sentinel);
    let url = deployment.url();
    let master = deployment.master().address().to_string();
    refused(&url, BackendErrorKind::Denied, "use the correct user and password").await;
    let wrong = url.replace("://", "://:canary2@");
    refused(&wrong, BackendErrorKind::Denied, "WRONGPASS").await;
    refused(&wrong, BackendErrorKind::Denied, &master).await;
    let right = url.replace("://", "://:canary@");
    redis(&right).await;
    for server in deployment.servers() {
        server.command(&["ACL", "SETUSER", "default", "-evalsha"]);
    }
    refused(&right, BackendErrorKind::Denied, "'evalsha'").await;
}

#[tokio::test]
async fn plain_server_is_refused_as_a_sentinel() {
    let server = RedisServer::start();
    let url = format!("redis-sentinel://{}/main", server.address());
    refused(
        &url,
        BackendErrorKind::Misconfigured,
        "it is not a sentinel; for a single server, write `redis://`",
    )
    .await;
    refused(&url, BackendErrorKind::Misconfigured, &server.address().to_string()).await;
}

#[tokio::test]
async fn sentinel_is_refused_as_a_plain_server() {
    let deployment = RedisSentinels::start();
    let url = format!("redis://{}", deployment.sentinels()[0].address());
    refused(&url, BackendErrorKind::Misconfigured, "write `redis-sentinel://`").await;
}
