//! The log of a whole life: a wrong password, connecting, holding, a loss, an outage, releasing, shutting down.

use super::{CANARY, ear, is_silent};
use crate::client::{RECORDS, RedisBackend};
use lock_core::{LockFactory, LockOptions};
use lock_testkit::RedisServer;
use std::time::{Duration, Instant};

#[tokio::test]
async fn no_log_line_has_a_password() {
    ear::listen();
    let server = RedisServer::builder().user(&format!("shop on >{CANARY} ~* &* +@all")).start();
    let wrong = format!("redis://shop:{CANARY}-wrong@127.0.0.1:{}", server.port());
    RedisBackend::connect(&wrong).await.map(drop).expect_err("wrong password");
    let backend =
        RedisBackend::connect(&format!("redis://shop:{CANARY}@127.0.0.1:{}", server.port())).await.unwrap();
    let options = LockOptions::new().lease(Duration::from_secs(1));
    let locks = LockFactory::builder(backend).options(options).build().unwrap();

    let lost = locks.named("lost").unwrap().acquire().await.unwrap();
    locks.force_release("lost").await.unwrap();
    let _ = lost.lost().await;

    let kept = locks.named("kept").unwrap().acquire().await.unwrap();
    server.stop();
    locks.inspect("kept").await.expect_err("the server is down");
    let _ = kept.lost().await;
    server.restart_empty();
    let begin = Instant::now();
    let again = loop {
        match locks.named("again").unwrap().acquire().await {
            Ok(guard) => break guard,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(90), "{error:?}"),
        }
    };
    let _ = again.release().await.unwrap();
    locks.shutdown().await;

    let heard = ear::heard();
    // Proves that the capture works: it has the library's records, if there are any, and this project's events.
    assert!(RECORDS.iter().all(|record| heard.contains(record)), "{heard}");
    assert!(heard.contains("lock_core"), "{heard}");
    eprintln!("{} log lines, none with the password", heard.lines().count());
    is_silent("a log line", &heard);
}
