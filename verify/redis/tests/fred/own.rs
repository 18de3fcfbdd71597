//! An existing configuration of fred.

use lock_core::LockFactory;
use lock_fred::{RedisBackendBuilder, fred::types::config::Config};
use lock_testkit::{RedisCluster, RedisSentinels, RedisServer};

#[tokio::test]
async fn fred_configuration_is_accepted() {
    let server = RedisServer::start();
    let mut config = Config::from_url(&server.url()).unwrap();
    config.fail_fast = false;
    let backend = RedisBackendBuilder::from_client(&config).unwrap().connect().await.unwrap();
    LockFactory::new(backend).named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn configuration_of_several_servers_is_accepted() {
    let (cluster, sentinels) = (RedisCluster::start(), RedisSentinels::start());
    let (first, second) = (cluster.servers()[0].port(), cluster.servers()[1].port());
    let of_cluster = format!("redis-cluster://127.0.0.1:{first}?node=127.0.0.1:{second}");
    let sentinel = sentinels.sentinels()[0].port();
    let of_sentinels = format!("redis-sentinel://127.0.0.1:{sentinel}?sentinelServiceName=main");
    for url in [of_cluster, of_sentinels] {
        let backend = RedisBackendBuilder::from_client(&Config::from_url(&url).unwrap())
            .unwrap()
            .connect()
            .await
            .unwrap();
        LockFactory::new(backend).named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    }
}
