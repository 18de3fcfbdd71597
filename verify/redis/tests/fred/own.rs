//! A configuration of fred that a program has already.

use lock_core::LockFactory;
use lock_fred::{fred::types::config::Config, from_config};
use lock_testkit::RedisServer;

#[tokio::test]
async fn a_configuration_of_fred_will_do() {
    let server = RedisServer::start();
    let mut config = Config::from_url(&server.url()).unwrap();
    config.fail_fast = false;
    let backend = from_config(config).unwrap().connect().await.unwrap();
    LockFactory::new(backend).named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[test]
fn a_configuration_of_a_cluster_is_refused() {
    let cluster = Config::from_url("redis-cluster://127.0.0.1:7000").unwrap();
    let error = from_config(cluster).map(drop).unwrap_err();
    assert!(error.to_string().contains("standalone"), "{error:?}");
}
