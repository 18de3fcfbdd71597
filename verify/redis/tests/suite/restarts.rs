//! Servers that lose their data or their scripts: holds are reported as lost, or are not affected.

use super::support::{answered, factory, name};
use lock_core::LostReason;
use lock_testkit::RedisServer;
use std::time::Duration;

/// Renewed every two seconds, even on a busy machine.
const LEASE: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_lost_by_its_server_is_reported_as_lost() {
    for empties in [true, false] {
        let server = RedisServer::start();
        let locks = factory(&server.url(), LEASE).await;
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        match empties {
            true => server.restart_empty(),
            false => drop(server.command(&["FLUSHALL"])),
        }
        let lost = answered("the holder", guard.lost()).await;
        assert_eq!(lost, LostReason::Gone, "noticed at a renewal, before the lease would have ended");
        assert!(!guard.is_held());
        let after = locks.named("x").unwrap().acquire().await.unwrap();
        assert!(after.fencing_token() > guard.fencing_token());
        assert!(!guard.release().await.unwrap().was_held());
        assert!(after.is_held(), "a late release does not affect it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_are_sent_again() {
    let server = RedisServer::start();
    let locks = factory(&server.url(), LEASE).await;
    for _ in 0..20 {
        server.command(&["SCRIPT", "FLUSH"]);
        let guard = locks.named("x").unwrap().acquire().await.unwrap();
        server.command(&["SCRIPT", "FLUSH"]);
        let inner = guard.reenter().await.unwrap();
        server.command(&["SCRIPT", "FLUSH"]);
        assert!(locks.inspect(&name("x")).await.unwrap().stored.is_some());
        server.command(&["SCRIPT", "FLUSH"]);
        inner.release().await.unwrap();
        assert!(guard.release().await.unwrap().was_held());
    }
}
