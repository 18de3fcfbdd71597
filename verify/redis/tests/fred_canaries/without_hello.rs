//! Redis with a renamed `HELLO`, Redis before 6.0, and proxies: fred logs in with `AUTH`.

use crate::canaries::{
    CANARY, ear,
    hello::{texts, url},
    is_silent,
};
use lock_fred::RedisBackend;
use lock_testkit::{RedisServer, TcpProxy};
use std::time::Duration;

#[tokio::test]
async fn server_without_hello_is_used_and_quotes_no_password() {
    ear::listen();
    let with_password = || RedisServer::builder().password(CANARY);
    let (known, unknown) =
        (with_password().start(), with_password().config_line("rename-command HELLO \"\"").start());
    let wrong = format!("redis://:{CANARY}-wrong@127.0.0.1:{}", unknown.port());
    let error = RedisBackend::connect(&wrong).await.map(drop).expect_err("wrong password");
    is_silent("an error", &texts(&error));
    RedisBackend::connect(&url(CANARY, unknown.port())).await.unwrap();
    let proxy = TcpProxy::start(known.address());
    let backend = RedisBackend::connect(&url(CANARY, proxy.port())).await.unwrap();
    proxy.retarget(unknown.address());
    proxy.cut();
    while unknown.clients() < 2 {
        if let Err(error) = backend.ping().await {
            is_silent("an error", &texts(&error));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!ear::heard().contains(CANARY), "the log contains the password");
}
