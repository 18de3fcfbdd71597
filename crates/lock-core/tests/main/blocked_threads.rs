//! A thread that blocks after it used a lock does not stop the watchdog of other locks.

use crate::support::secs;
use lock_core::{LockFactory, LockOptions, MemoryBackend};
use lock_testkit::{LastUse, outlives_a_blocked_thread};

const LEASE: std::time::Duration = secs(2);

fn keeps_the_others(threads: usize) {
    let tries = LastUse::ALL.map(|last| {
        let connect = async {
            let options = LockOptions::new().lease(LEASE);
            LockFactory::builder(MemoryBackend::new()).options(options).build().unwrap()
        };
        (last, std::thread::spawn(move || outlives_a_blocked_thread(threads, last, LEASE, connect)))
    });
    let lost: Vec<_> =
        tries.into_iter().filter_map(|(last, held)| (!held.join().unwrap()).then_some(last)).collect();
    assert_eq!(lost, [], "a lock was lost after these uses of another");
}

#[test]
fn with_one_worker_thread() {
    keeps_the_others(1);
}

#[test]
fn with_four_worker_threads() {
    keeps_the_others(4);
}
