//! Payments with idempotency keys across three processes: each key has one effect and one answer.

use crate::{
    figure::{Figure, Run},
    stage::on_a_runtime,
    support::node,
};
use lock_testkit::RedisServer;
use lock_tower::idempotency::SqliteIdempotencyStore;
use lock_trials::{line::Order, process::Process};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use std::{collections::BTreeMap, path::Path};

const PROCESSES: u64 = 3;
const LEASE_MS: u64 = 300;
/// Several clients of each process use the same key at once.
const REQUESTS_PER_KEY: u64 = 10;

pub(crate) fn idempotent_requests(run: &Run) -> Vec<Figure> {
    let requests: u64 = run.times(500, 10_000);
    let (each, keys) = (requests.div_ceil(PROCESSES), requests / REQUESTS_PER_KEY);
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let file = directory.path().join("payments.sqlite");
    on_a_runtime(create_tables(&file));
    let nodes = (0..PROCESSES).map(|number| {
        let seed = run.seed.get().wrapping_add(1_000 * number).to_string();
        let (each, keys) = (each.to_string(), keys.to_string());
        node(&server.url(), LEASE_MS, &["pay", file.to_str().unwrap(), &each, &keys, "--seed", &seed])
    });
    let mut nodes: Vec<Process> = nodes.collect();
    nodes.iter_mut().for_each(|node| drop(node.expect("ready")));
    nodes.iter_mut().for_each(|node| node.tell(&Order::Go));

    let mut answers = BTreeMap::new();
    let mut received = 0;
    let mut faults = [("left", 0), ("rejected", 0), ("failed", 0), ("replayed", 0), ("forced", 0)];
    for node in &mut nodes {
        let mut lines = node.until("payments");
        let counts = lines.pop().unwrap();
        faults.iter_mut().for_each(|(name, count)| *count += counts.number(name));
        received += lines.len() as u64;
        for line in lines {
            let (key, answer) = (line.number("key"), line.text("answer").to_owned());
            let first = answers.entry(key).or_insert_with(|| answer.clone());
            assert_eq!(*first, answer, "every client of the key {key} receives the same answer");
        }
    }
    assert!(nodes.into_iter().all(Process::ends), "clean exits");
    assert_eq!(received, each * PROCESSES, "every request is eventually answered");
    for (name, count) in faults {
        assert!(count > 0, "requests were {name}: {faults:?}");
    }
    let (payments, most) = on_a_runtime(count(&file));
    assert_eq!((payments, most), (answers.len() as i64, 1), "each key is paid once");
    let [left, rejected, failed, replayed, forced] = faults.map(|(_, count)| count);
    vec![Figure::new(
        "requests with idempotency keys over 3 processes; clients leave and repeat, locks are forcibly released",
        format!("{received} requests, {} keys", answers.len()),
        "one effect for each key; every client gets the same answer",
        format!(
            "1 effect, 1 answer; {left} clients left, {rejected} rejected while in flight, {forced} locks taken, \
             {failed} attempts failed, {replayed} replays"
        ),
    )]
}

async fn create_tables(file: &Path) {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    SqliteIdempotencyStore::new(pool.clone()).create_table().await.unwrap();
    sqlx::query("create table payments (name text not null)").execute(&pool).await.unwrap();
    pool.close().await;
}

/// Returns the number of payments, and the maximum per key.
async fn count(file: &Path) -> (i64, i64) {
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(file)).await.unwrap();
    let counts = "select sum(n), max(n) from (select count(*) as n from payments group by name)";
    sqlx::query_as(counts).fetch_one(&pool).await.unwrap()
}
