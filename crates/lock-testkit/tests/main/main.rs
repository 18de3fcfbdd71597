//! The conformance suite for this workspace's backends that need no server, and tests of the server
//! and proxy tools.

// A failed setup step fails the test.
#![allow(clippy::unwrap_used)]

mod faulty;
#[cfg(all(unix, feature = "servers"))]
mod mariadb_server;
mod memory;
#[cfg(feature = "__planted")]
mod planted;
#[cfg(all(unix, feature = "servers"))]
mod postgres_server;
mod promises;
#[cfg(all(unix, feature = "servers"))]
mod proxy;
#[cfg(all(unix, feature = "servers"))]
mod redis_server;
#[cfg(feature = "__planted")]
mod storm;
mod subscriptions;

/// Waits for a condition that another process or thread is about to fulfil.
#[cfg(all(unix, feature = "servers"))]
fn soon(what: &str, holds: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
