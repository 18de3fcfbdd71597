//! The referee: the reports that it receives, and its detection of violations.

use lock_core::{LockFactory, LockGuard, LockOptions, MemoryBackend};
use lock_trials::{
    line::Order,
    process::Process,
    referee::{Part, Testimony, Witness},
};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::Command,
    time::Duration,
};

const SELDOM: Duration = Duration::from_secs(60);

async fn held(options: LockOptions) -> LockGuard {
    let locks =
        LockFactory::builder(MemoryBackend::new()).options(options).build().expect("consistent options");
    locks.named("x").expect("valid name").acquire().await.expect("free")
}

/// A window that is not empty would overlap with that of the present holder.
#[tokio::test]
async fn ended_hold_is_reported_as_never_valid() {
    let referee = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = referee.local_addr().unwrap();
    let accepting = std::thread::spawn(move || {
        let mut accepted = referee.accept().unwrap().0;
        accepted.write_all(b"\n").unwrap();
        accepted
    });
    let witness = Witness::of(address, SELDOM).unwrap();
    let mut lines = BufReader::new(accepting.join().unwrap()).lines();
    for _ in 0..20 {
        let guard = held(LockOptions::new().fixed_lease(Duration::from_millis(100))).await;
        let _ = guard.lost().await;
        let inside = witness.enters(guard.hold());
        let line = lines.next().unwrap().unwrap();
        let Ok(Testimony::Enter { from, until, .. }) = serde_json::from_str(&line) else { panic!("{line}") };
        assert!(until <= from, "{line}");
        drop(inside);
        lines.next().unwrap().unwrap();
    }
}

/// Two unrelated stores, so that the same lock is held twice at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn two_valid_holds_at_once_are_a_violation() {
    let mut process = Process::start(&mut Command::new(env!("CARGO_BIN_EXE_lock-referee")));
    let address = process.expect("listening").text("address").parse().unwrap();
    let (one, two) = (Witness::of(address, SELDOM).unwrap(), Witness::of(address, SELDOM).unwrap());
    let (first, second) = (held(LockOptions::new()).await, held(LockOptions::new()).await);
    let (a, b) = (one.enters(first.hold()), two.enters(second.hold()));
    drop((a, b, one, two));
    process.tell(&Order::Judge);
    let lines = process.until("verdict");
    let verdict = lines.last().unwrap();
    assert_eq!((verdict.number("windows"), verdict.number("violations")), (2, 1), "{lines:?}");
    assert!(lines[0].text("text").contains("two valid holds at once"), "{lines:?}");
}

/// Permits of a pool may be valid together, up to its limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn weights_above_the_limit_are_a_violation() {
    let mut process = Process::start(&mut Command::new(env!("CARGO_BIN_EXE_lock-referee")));
    let address = process.expect("listening").text("address").parse().unwrap();
    let witness = Witness::of(address, SELDOM).unwrap();
    let part = Some(Part { weight: 2, limit: 5 });
    let guards =
        [held(LockOptions::new()).await, held(LockOptions::new()).await, held(LockOptions::new()).await];
    let two = [0, 1].map(|number| witness.takes(guards[number].hold(), part));
    drop(two);
    let three = [0, 1, 2].map(|number| witness.takes(guards[number].hold(), part));
    drop((three, witness));
    process.tell(&Order::Judge);
    let lines = process.until("verdict");
    let verdict = lines.last().unwrap();
    assert_eq!((verdict.number("windows"), verdict.number("violations")), (5, 1), "{lines:?}");
    assert!(lines[0].text("text").contains("6 permits of 5 are valid"), "{lines:?}");
}
