//! The signals that ask the process to end.

use futures_util::FutureExt;
use lock_core::shutdown_signal;
use std::process::{Command, id};

/// Sends a signal to this process, whose handler the test has installed.
fn raise(name: &str) {
    assert!(Command::new("kill").args([name, &id().to_string()]).status().unwrap().success());
}

/// One test, since a signal reaches every listener of the process.
#[tokio::test]
async fn shutdown_signal_completes_at_each_signal_and_misses_none_before_its_first_poll() {
    for name in ["-TERM", "-INT"] {
        let mut shutdown = Box::pin(shutdown_signal().unwrap());
        assert!((&mut shutdown).now_or_never().is_none(), "no signal was sent since");
        raise(name);
        shutdown.await;

        let unpolled = shutdown_signal().unwrap();
        raise(name);
        unpolled.await;
    }
}
