//! The holder is suspended (`SIGSTOP`) for three leases with an unfinished write.

use crate::{
    figure::{Figure, Run},
    stage::{Bench, Referee, on_a_runtime},
};
use lock_testkit::RedisServer;
use lock_trials::{
    fenced::FencedTable,
    line::{Order, now},
    process::at_once,
};
use std::{sync::Arc, thread::sleep, time::Duration};

const LEASE_MS: u64 = 3_000;
/// The number of concurrent cases.
const AT_ONCE: usize = 10;

pub(crate) fn paused_holders(run: &Run) -> Vec<Figure> {
    let rounds = run.times(1, 5);
    let (server, referee) = (Arc::new(RedisServer::start()), Referee::appears());
    for round in 0..rounds {
        let (server, bench) = (server.clone(), referee.bench());
        at_once(AT_ONCE, move |case| a_pause(&server, bench, &format!("paused:{round}:{case}")));
    }
    let (windows, violations) = referee.judges();
    let times = rounds * AT_ONCE;
    assert_eq!(violations, Vec::<String>::new());
    assert_eq!(windows, 2 * times as u64, "the referee recorded the paused and the next holders");
    vec![Figure::new(
        "`SIGSTOP` of the holder for three leases; it then continues with its write",
        times,
        "it notices the loss first; no stale write, no overlap",
        format!("0 unaware, 0 stale writes accepted, 0 overlaps in {windows} holds"),
    )]
}

fn a_pause(server: &RedisServer, bench: Bench, lock: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fenced.sqlite");
    let read = Order::Read { file: file.clone() };
    let join = || bench.watches(&server.url(), LEASE_MS, &["hold", lock]);
    let mut zombie = join();
    let first = zombie.expect("held");
    zombie.tell(&read);
    assert!(zombie.expect("read").is("fresh"));

    zombie.pause();
    // The first order that it reads when it is resumed, followed by its unfinished write.
    zombie.tell(&Order::IsHeld);
    zombie.tell(&Order::Write);
    let paused = now();
    let mut heir = join();
    let second = heir.expect("held");
    assert!(second.number("token") > first.number("token"));
    heir.tell(&read);
    assert!(heir.expect("read").is("fresh"));
    sleep(Duration::from_millis(3 * LEASE_MS).saturating_sub(Duration::from_micros(now() - paused)));
    zombie.resume();
    assert!(!zombie.expect("is_held").is("held"), "it notices the loss first");
    assert!(!zombie.expect("write").is("accepted"));
    heir.tell(&Order::IsHeld);
    assert!(heir.expect("is_held").is("held"));
    heir.tell(&Order::Write);
    assert!(heir.expect("write").is("accepted"));
    heir.tell(&Order::Release);
    assert!(heir.expect("released").is("was_held"));
    let value = on_a_runtime(async { FencedTable::open(&file).await.unwrap().value().await.unwrap() });
    assert_eq!(value, 1, "one write of two was accepted");
}
