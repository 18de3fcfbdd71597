//! Holders that are killed, and holders that are paused past their lease.

use crate::support::{at_once, node};
use lock_node::{fenced::FencedTable, line::now};
use lock_testkit::RedisServer;
use std::{sync::Arc, thread::sleep, time::Duration};

/// How many cases run at a time.
const AT_ONCE: usize = 10;

#[test]
fn a_killed_holder_is_followed_within_its_lease_and_a_second() {
    const LEASE: u64 = 2_000;
    let server = Arc::new(RedisServer::start());
    let mut waits: Vec<u64> = Vec::new();
    for round in 0..3 {
        let server = server.clone();
        waits.extend(at_once(AT_ONCE, move |case| {
            let lock = format!("killed:{round}:{case}");
            let mut holder = node(&server.url(), LEASE, &["hold", &lock]);
            let first = holder.expect("held");
            let mut waiter = node(&server.url(), LEASE, &["hold", &lock]);
            assert!(waiter.line_within(Duration::from_millis(300 + 100 * case as u64)).is_none(), "it waits");
            holder.kill();
            let killed = now();
            let second = waiter.expect("held");
            assert!(second.number("token") > first.number("token"));
            (second.number("at") - killed) / 1_000
        }));
    }
    let (most, kills) = (waits.iter().max().copied().unwrap(), waits.len());
    eprintln!("kill -9 of the holder, {kills} times, lease {LEASE} ms: the next one within {most} ms");
    assert!(most <= LEASE + 1_000, "{most} ms");
}

#[test]
fn a_paused_holder_sees_first_that_it_lost_and_its_write_is_refused() {
    const LEASE: u64 = 1_000;
    let server = Arc::new(RedisServer::start());
    for round in 0..2 {
        let server = server.clone();
        at_once(AT_ONCE, move |case| {
            let (lock, directory) = (format!("paused:{round}:{case}"), tempfile::tempdir().unwrap());
            let file = directory.path().join("fenced.sqlite");
            let read = format!("read {}", file.display());
            let mut zombie = node(&server.url(), LEASE, &["hold", &lock]);
            let first = zombie.expect("held");
            zombie.tell(&read);
            assert_eq!(zombie.expect("read").at(1), "fresh");

            zombie.pause();
            // The first thing that it finds when it goes on, and then what it was about to do.
            zombie.tell("is_held");
            zombie.tell("write");
            let paused = now();
            let mut heir = node(&server.url(), LEASE, &["hold", &lock]);
            let second = heir.expect("held");
            assert!(second.number("token") > first.number("token"));
            heir.tell(&read);
            assert_eq!(heir.expect("read").at(1), "fresh");
            sleep(Duration::from_millis(3 * LEASE).saturating_sub(Duration::from_micros(now() - paused)));
            zombie.resume();
            assert_eq!(zombie.line().text(), "is_held false", "the first thing that it sees");
            assert_eq!(zombie.expect("write").at(1), "stale");
            heir.tell("is_held");
            assert_eq!(heir.line().text(), "is_held true");
            heir.tell("write");
            assert_eq!(heir.expect("write").at(1), "done");
            heir.tell("release");
            assert!(heir.expect("released").text().contains("was_held=true"));

            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let value =
                runtime.block_on(async { FencedTable::open(&file).await.unwrap().value().await.unwrap() });
            assert_eq!(value, 1, "one write of two was accepted");
        });
    }
    eprintln!("SIGSTOP of the holder for three leases, {} times: no stale write accepted", 2 * AT_ONCE);
}
