//! The holder is suspended (`SIGSTOP`) for three leases with an unfinished write; or its machine is, before it acquires.

use crate::{
    figure::{Figure, Run},
    stage::{Bench, LockFile, Referee, mariadb, on_a_runtime, postgres},
    support::command,
};
use lock_testkit::{ClockShift, EtcdCluster, RedisServer, ZooKeeperEnsemble};
use lock_trials::{
    fenced::FencedTable,
    line::{Order, now},
    process::{Process, at_once},
};
use std::{thread::sleep, time::Duration};

const LEASE_MS: u64 = 3_000;
/// The number of concurrent cases.
const AT_ONCE: usize = 10;

pub(crate) fn paused_holders(run: &Run) -> Vec<Figure> {
    let (server, file) = (RedisServer::start(), LockFile::new());
    let ((_postgres, postgres), (_mariadb, mariadb)) = (postgres(), mariadb());
    let (etcd, zookeeper) = (EtcdCluster::start(3), ZooKeeperEnsemble::start(3));
    vec![
        pauses(run, "", &server.url()),
        pauses(run, " of a lock in an SQLite file", &file.url()),
        pauses(run, " of a lock in PostgreSQL", &postgres),
        pauses(run, " of a lock in MariaDB", &mariadb),
        pauses(run, " of a lock in an etcd cluster of three", &format!("{}?session=5s", etcd.url())),
        pauses(
            run,
            " of a lock in a ZooKeeper ensemble of three",
            &format!("{}?session=8s", zookeeper.url()),
        ),
    ]
}

fn pauses(run: &Run, which: &str, url: &str) -> Figure {
    let (rounds, referee) = (run.times(1, 5), Referee::appears());
    for round in 0..rounds {
        let (url, bench) = (url.to_owned(), referee.bench());
        at_once(AT_ONCE, move |case| a_pause(&url, bench, &format!("paused:{round}:{case}")));
    }
    let (windows, violations) = referee.judges();
    let times = rounds * AT_ONCE;
    assert_eq!(violations, Vec::<String>::new());
    assert_eq!(windows, 2 * times as u64, "the referee recorded the paused and the next holders");
    Figure::new(
        format!("`SIGSTOP` of the holder{which} for three leases; it then continues with its write"),
        times,
        "it notices the loss first; no stale write, no overlap",
        format!("0 unaware, 0 stale writes accepted, 0 overlaps in {windows} holds"),
    )
}

/// The machine of a process is suspended for almost a session. The process then acquires at once.
pub(crate) fn suspended_machines(run: &Run) -> Vec<Figure> {
    let (etcd, zookeeper) = (EtcdCluster::start(1), ZooKeeperEnsemble::start(1));
    vec![
        suspensions(run, "etcd", &format!("{}?session=8s", etcd.url())),
        suspensions(run, "ZooKeeper", &format!("{}?session=8s", zookeeper.url())),
    ]
}

fn suspensions(run: &Run, which: &str, url: &str) -> Figure {
    let (rounds, referee) = (run.times(1, 10), Referee::appears());
    for round in 0..rounds {
        let (url, bench) = (url.to_owned(), referee.bench());
        at_once(AT_ONCE, move |case| a_suspension(&url, bench, &format!("suspended:{round}:{case}")));
    }
    let (windows, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    Figure::new(
        format!("machine suspended for 7.2 s of a session of 8 s in {which}; its process then acquires"),
        rounds * AT_ONCE,
        "the session lasts as long as the lease: no overlap",
        format!("0 overlaps in {windows} holds"),
    )
}

fn a_suspension(url: &str, bench: Bench, lock: &str) {
    const SUSPENDED: Duration = Duration::from_millis(7_200);
    let (lease_ms, clock) = (5_000, ClockShift::new());
    let mut command = command(url, lease_ms, &["--referee", &bench.address().to_string(), "hold", lock]);
    clock.give_to(&mut command);
    let mut first = Process::start(&mut command);
    first.expect("held");
    first.tell(&Order::Release);
    first.expect("released");

    first.pause();
    sleep(SUSPENDED);
    clock.suspended(SUSPENDED);
    // The first order that it reads.
    first.tell(&Order::Acquire);
    first.resume();
    first.expect("held");
    let mut other = bench.watches(url, lease_ms, &["hold", lock]);
    // Longer than what was left of the session.
    sleep(Duration::from_secs(3));
    first.tell(&Order::Release);
    first.expect("released");
    other.expect("held");
}

fn a_pause(url: &str, bench: Bench, lock: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fenced.sqlite");
    let read = Order::Read { file: file.clone() };
    let join = || bench.watches(url, LEASE_MS, &["hold", lock]);
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
