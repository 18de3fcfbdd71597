//! Redis with a renamed `HELLO`, Redis before 6.0, and proxies: redis-rs cannot log in there.

use crate::canaries::{
    CANARY, ear,
    hello::{texts, url},
    is_silent,
};
use lock_redis_rs::RedisBackend;
use lock_testkit::RedisServer;

#[tokio::test]
async fn server_without_hello_is_refused_without_quoting_the_password() {
    ear::listen();
    let server = RedisServer::builder().password(CANARY).config_line("rename-command HELLO \"\"").start();
    let error = RedisBackend::connect(&url(CANARY, server.port())).await.map(drop).expect_err("no HELLO");
    let text = texts(&error);
    is_silent("an error", &text);
    assert!(text.contains("unknown command HELLO"), "{text}");
    assert!(!ear::heard().contains(CANARY), "the log contains the password");
}
