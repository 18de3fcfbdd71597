//! The holder is killed, as by `kill -9`, while others wait: one of them acquires the lock once the lease has ended.

use crate::{
    figure::{Figure, Run, ms},
    stage::{LockFile, Referee, mariadb, postgres},
};
use lock_testkit::{EtcdCluster, RedisServer, ZooKeeperEnsemble};
use lock_trials::{
    line::now,
    process::{Process, at_once},
};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(2);
/// The shortest sessions of etcd and ZooKeeper, which look for ended ones every half a second.
const ETCD_SESSION: Duration = Duration::from_secs(5);
const ZOOKEEPER_SESSION: Duration = Duration::from_secs(8);
/// The number of processes that wait for each lock on Redis, and in a database.
const WAITERS: usize = 20;
const DATABASE_WAITERS: usize = 5;
/// The number of concurrent locks, each with its own processes.
const LOCKS: usize = 3;

pub(crate) fn killed_holders(run: &Run) -> Vec<Figure> {
    let (server, file) = (RedisServer::start(), LockFile::new());
    let ((_postgres, postgres), (_mariadb, mariadb)) = (postgres(), mariadb());
    let (etcd, zookeeper) = (EtcdCluster::start(3), ZooKeeperEnsemble::start(3));
    vec![
        kills(run, "; lease 2 s", &server.url(), WAITERS, LEASE),
        kills(run, " of a lock in an SQLite file; lease 2 s", &file.url(), DATABASE_WAITERS, LEASE),
        kills(run, " of a lock in PostgreSQL; lease 2 s", &postgres, DATABASE_WAITERS, LEASE),
        kills(run, " of a lock in MariaDB; lease 2 s", &mariadb, DATABASE_WAITERS, LEASE),
        kills(
            run,
            " of a lock in an etcd cluster of three; session 5 s",
            &format!("{}?session=5s", etcd.url()),
            DATABASE_WAITERS,
            ETCD_SESSION,
        ),
        kills(
            run,
            " of a lock in a ZooKeeper ensemble of three; session 8 s",
            &format!("{}?session=8s", zookeeper.url()),
            DATABASE_WAITERS,
            ZOOKEEPER_SESSION,
        ),
    ]
}

/// Kills holders whose locks are free after a time.
fn kills(run: &Run, which: &str, url: &str, waiters: usize, after: Duration) -> Figure {
    let (kills, referee) = (run.times(if after == LEASE { 4 } else { 2 }, 34), Referee::appears());
    let waits = {
        let (url, bench, seed) = (url.to_owned(), referee.bench(), run.seed);
        at_once(LOCKS, move |number| {
            let lock = format!("killed:{number}");
            let join = || bench.watches(&url, lease_ms(), &["hold", &lock]);
            let mut random = lock_testkit::Seed::new(seed.get() ^ number as u64).stream();
            let mut nodes: Vec<Process> = (0..=waiters).map(|_| join()).collect();
            let (mut holder, _, mut last) = next_holder(&mut nodes);
            (0..kills)
                .map(|_| {
                    // Just granted, just renewed, or about to renew.
                    sleep(Duration::from_millis(random.below(700)));
                    nodes[holder].kill();
                    let killed = now();
                    nodes[holder] = join();
                    let (next, at, token) = next_holder(&mut nodes);
                    assert!(token > last, "{token} after {last}");
                    (holder, last) = (next, token);
                    Duration::from_micros(at.saturating_sub(killed))
                })
                .collect::<Vec<_>>()
        })
        .concat()
    };
    let worst = waits.iter().max().copied().unwrap();
    let bound = after + Duration::from_secs(1);
    let (windows, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    assert!(windows > waits.len() as u64, "the referee recorded every hold: {windows}");
    run.bound(worst, bound);
    Figure::new(
        format!("`kill -9` of the holder{which}, {waiters} processes wait"),
        waits.len(),
        format!("another process holds within {}; no overlap", ms(bound)),
        format!("{}, 0 overlaps in {windows} holds", ms(worst)),
    )
}

fn lease_ms() -> u64 {
    u64::try_from(LEASE.as_millis()).unwrap()
}

/// Returns the process that reports a hold, with the time and the token.
fn next_holder(nodes: &mut [Process]) -> (usize, u64, u64) {
    let begin = Instant::now();
    loop {
        for (number, node) in nodes.iter_mut().enumerate() {
            if let Some(line) = node.line_within(Duration::ZERO) {
                assert_eq!(line.word(), "held");
                return (number, line.number("at"), line.number("token"));
            }
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "no process holds");
        sleep(Duration::from_millis(2));
    }
}
