//! The conformance suite for the backends of this workspace that need no server, and tests of the servers and the
//! proxy for those that do.

// Setup either works or fails the test.
#![allow(clippy::unwrap_used)]

mod faulty;
mod memory;
#[cfg(feature = "__planted")]
mod planted;
mod promises;
#[cfg(all(unix, feature = "servers"))]
mod proxy;
mod quorum;
#[cfg(all(unix, feature = "servers"))]
mod redis_server;
#[cfg(feature = "__planted")]
mod storm;
mod subscriptions;

/// Waits for something that another process or thread is about to do.
#[cfg(all(unix, feature = "servers"))]
fn soon(what: &str, holds: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
