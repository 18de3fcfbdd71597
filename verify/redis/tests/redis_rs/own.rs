//! An existing client of redis-rs.

use lock_core::LockFactory;
use lock_redis_rs::{RedisBackendBuilder, redis::Client};
use lock_testkit::RedisServer;

#[tokio::test]
async fn redis_rs_client_is_accepted() {
    let server = RedisServer::builder().password("canary").unix_socket().start();
    let socket = server.unix_socket_path().unwrap();
    for url in [
        format!("redis://:canary@127.0.0.1:{}/2", server.port()),
        format!("unix://{}?db=2&pass=canary", socket.display()),
    ] {
        let client = Client::open(url).unwrap();
        let backend = RedisBackendBuilder::from_client(&client).unwrap().connect().await.unwrap();
        let guard = LockFactory::new(backend).named("x").unwrap().acquire().await.unwrap();
        let mut raw = server.raw();
        raw.command(&["SELECT", "2"]);
        assert_eq!(raw.command(&["TYPE", "x"]).text(), "hash", "stored in the client's database");
        guard.release().await.unwrap();
    }
}
