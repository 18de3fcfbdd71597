//! The signals that ask the process to end.

use futures_util::FutureExt;
use lock_core::shutdown_signal;
use std::{
    env,
    io::{BufRead, BufReader},
    process::{Command, Stdio, exit, id},
    thread,
    time::Duration,
};

const THIS_TEST: &str = "signal::second_signal_ends_a_process_that_hangs";
const CHILD: &str = "LOCK_CORE_TEST_SIGNAL";

/// Sends a signal to this process, whose handler the test has installed.
fn raise(name: &str) {
    assert!(Command::new("kill").args([name, &id().to_string()]).status().unwrap().success());
}

/// One test, since a signal reaches every listener of the process.
#[tokio::test]
async fn shutdown_signal_completes_at_each_signal_and_misses_none_before_its_first_poll() {
    // Many times: a handler that notes a signal after the future has completed would end the process at the next one.
    for name in ["-TERM", "-INT"].repeat(50) {
        let mut shutdown = Box::pin(shutdown_signal().unwrap());
        assert!((&mut shutdown).now_or_never().is_none(), "no signal was sent since");
        raise(name);
        shutdown.await;

        let unpolled = shutdown_signal().unwrap();
        raise(name);
        unpolled.await;
    }
}

/// The process runs this test with an environment variable: after the first signal, its only thread blocks.
#[tokio::test]
async fn second_signal_ends_a_process_that_hangs() {
    if env::var_os(CHILD).is_some() {
        let shutdown = shutdown_signal().unwrap();
        println!("\nlistens");
        shutdown.await;
        println!("stops");
        thread::sleep(Duration::from_secs(60));
        exit(0);
    }
    for (first, second, status) in [("-TERM", "-TERM", 143), ("-TERM", "-INT", 130), ("-INT", "-INT", 130)] {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", THIS_TEST, "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut send = |when: &str, name: &str| {
            assert!(lines.any(|line| line == when), "{when}");
            assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
        };
        send("listens", first);
        send("stops", second);
        assert_eq!(child.wait().unwrap().code(), Some(status), "{first}, then {second}");
    }
}
