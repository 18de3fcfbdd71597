//! The order of the queues in the store: among processes, with a writer among readers, after the death of the first
//! waiter, and after the queue was lost.

use crate::{
    figure::{Figure, Run, ms},
    permits::PATIENCE,
    sections::Load,
    stage::{HANGS, Referee, factory, on_a_runtime, until},
    support::{command, node},
};
use lock_core::{
    LockFactory, LockOptions, LostReason,
    backend::Share,
    permit::{Permit, Pool, Semaphore},
};
use lock_testkit::RedisServer;
use lock_trials::{
    line::{Order, now},
    process::{Process, at_once},
};
use std::time::{Duration, Instant};

/// A lease that no hold of these trials outlives.
const LEASE: Duration = Duration::from_secs(30);
const LEASE_MS: u64 = 30_000;

/// Waits until this many have a place in the store's queue, and returns their processes.
async fn queued<K>(pool: &Pool<K>, count: usize) -> Vec<String> {
    until("the waiters are queued", async || pool.inspect().await.unwrap().waiters.len() >= count).await;
    let process = |lease: &str| lease.split_once(':').unwrap().0.to_owned();
    pool.inspect().await.unwrap().waiters.iter().map(|waiter| process(&waiter.lease)).collect()
}

pub(crate) fn fair_order(run: &Run) -> Vec<Figure> {
    const FIRST: usize = 4;
    const LATER: usize = 2;
    const TASKS: usize = 12;
    let (server, rounds) = (RedisServer::start(), run.times(4, 500));
    let tasks = TASKS.to_string();
    let mut seeds = run.seed.stream();
    let mut start = || {
        let seed = format!("--seed={}", seeds.number());
        node(&server.url(), LEASE_MS, &["queue", "turns", &tasks, &seed])
    };
    let mut processes: Vec<_> = (0..FIRST + LATER).map(|_| start()).collect();
    processes.iter_mut().for_each(|process| drop(process.expect("ready")));
    on_a_runtime(async {
        let fair = factory(&server.url(), LockOptions::new().lease(LEASE)).await.fair("turns").unwrap();
        for round in 0..rounds {
            let holder = fair.acquire().await.unwrap();
            let (first, later) = processes.split_at_mut(FIRST);
            first.iter_mut().for_each(|process| process.tell(&Order::Go));
            let order = queued(&fair, FIRST * TASKS).await;
            // They come after the others, while those are served.
            later.iter_mut().for_each(|process| process.tell(&Order::Go));
            holder.release().await.unwrap();
            let mut turns = Vec::new();
            for process in &mut processes {
                let mut lines = process.until("done");
                lines.pop();
                for turn in lines {
                    turns.push((
                        turn.number("token"),
                        turn.text("process").to_owned(),
                        turn.number("number"),
                    ));
                }
            }
            turns.sort_unstable();
            assert_eq!(turns.len(), (FIRST + LATER) * TASKS, "every waiter is served");
            for (at, process) in order.iter().enumerate() {
                let before = order[..at].iter().filter(|earlier| *earlier == process).count() as u64;
                let (_, granted, number) = &turns[at];
                assert_eq!((granted, *number), (process, before), "turn {at} of round {round}: {turns:?}");
            }
        }
    });
    vec![Figure::new(
        format!(
            "fair lock, {FIRST} processes of {TASKS} tasks queue while it is held, {LATER} more while they are served"
        ),
        rounds * FIRST * TASKS,
        "in the order of the store's queue; in each process, in the order of the calls",
        "0 out of order",
    )]
}

pub(crate) fn writer_among_readers(run: &Run) -> Vec<Figure> {
    const PROCESSES: usize = 4;
    const READERS: usize = 25;
    const HOLD: Duration = Duration::from_millis(100);
    let (server, referee, writes) = (RedisServer::start(), Referee::appears(), run.times(12, 1_000));
    let (url, bench) = (server.url(), referee.bench().address().to_string());
    let readers = Load::begin(PROCESSES, run.seed, |seed| {
        let words = ["--referee", &bench, "--kind", "read", "work", seed, "--pause", "50", "--takes", "100"];
        Process::start(command(&url, LEASE_MS, &words).args([READERS_OF; READERS]))
    });
    // The time at which each write was seen in the queue, and its token.
    let (written, waits): (Vec<(u64, u64)>, Vec<Duration>) = on_a_runtime(async {
        let locks = factory(&url, LockOptions::new().lease(LEASE)).await;
        let (pair, witness) = (locks.rw_lock(READERS_OF).unwrap(), referee.bench().witness(LEASE));
        let mut written = Vec::new();
        for _ in 0..writes {
            let asked = Instant::now();
            let writing = tokio::spawn(pair.write().acquire());
            let is_writer = |waiter: &lock_core::permit::PoolHolder| waiter.weight == Share::MAX_LIMIT;
            let is_queued = async || pair.read().inspect().await.unwrap().waiters.iter().any(is_writer);
            while !is_queued().await && !writing.is_finished() {}
            let queued = now();
            let writer = writing.await.unwrap().unwrap();
            let (wait, token) = (asked.elapsed(), writer.fencing_token().get());
            let part = lock_trials::referee::Part { weight: Share::MAX_LIMIT, limit: Share::MAX_LIMIT };
            drop(witness.takes(writer.hold(), Some(part)));
            writer.release().await.unwrap();
            written.push(((queued, token), wait));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        written.into_iter().unzip()
    });
    let mut reads = readers.end();
    reads.sort_unstable_by_key(|read| read.token);
    let mut passed = 0;
    for (queued, token) in &written {
        let before = reads.iter().take_while(|read| read.token < *token);
        passed += before.filter(|read| read.asked > *queued).count();
    }
    assert_eq!(passed, 0, "readers that came after a writer in the queue passed it");
    let (windows, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    let (worst, bound) = (waits.into_iter().max().unwrap(), HOLD * 20);
    run.bound(worst, bound);
    vec![Figure::new(
        format!(
            "a writer among {} readers of {PROCESSES} processes, which hold for 100 ms",
            PROCESSES * READERS
        ),
        format!("{writes} writes, {} reads", reads.len()),
        format!(
            "no reader that asks after the writer is queued passes it; it waits for at most {}",
            ms(bound)
        ),
        format!("0 passed; {}; 0 overlaps in {windows} holds", ms(worst)),
    )]
}

/// The name of the read-write lock.
const READERS_OF: &str = "catalogue";

pub(crate) fn dead_heads_and_lost_queues(run: &Run) -> Vec<Figure> {
    let flushing = {
        let (rounds, run) = (run.times(1, 20), *run);
        std::thread::spawn(move || flushed_pools(&run, rounds))
    };
    let heads = dead_heads(run);
    vec![heads, flushing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))]
}

fn dead_heads(run: &Run) -> Figure {
    const AT_ONCE: usize = 4;
    let (server, rounds) = (RedisServer::start(), run.times(1, 25));
    let url = server.url();
    let waits: Vec<Duration> = (0..rounds)
        .flat_map(|round| {
            let url = url.clone();
            at_once(AT_ONCE, move |case| a_dead_head(&url, &format!("dead:{round}:{case}")))
        })
        .collect();
    let (worst, bound) = (waits.into_iter().max().unwrap(), PATIENCE + PATIENCE / 3);
    run.bound(worst, bound);
    Figure::new(
        "`kill -9` of the first waiter of a fair lock; its holder then releases",
        rounds * AT_ONCE,
        format!("the next waiter is served within {}", ms(bound)),
        ms(worst),
    )
}

/// Returns the time from the death of the first waiter to the grant of the second one.
fn a_dead_head(url: &str, name: &str) -> Duration {
    on_a_runtime(async {
        let fair = factory(url, LockOptions::new().lease(LEASE)).await.fair(name).unwrap();
        let holder = fair.acquire().await.unwrap();
        let words = ["--kind", "fair", "hold", name];
        let mut first = node(url, LEASE_MS, &words);
        queued(&fair, 1).await;
        let mut second = node(url, LEASE_MS, &words);
        queued(&fair, 2).await;
        first.kill();
        let dead = now();
        let before = holder.fencing_token().get();
        holder.release().await.unwrap();
        let held = second.expect("held");
        assert!(held.number("token") > before);
        Duration::from_micros(held.number("at").saturating_sub(dead))
    })
}

/// The number of holders of a semaphore whose server loses its data, and of waiters. Of a fair lock, one holds and the others wait.
const HOLDERS: usize = 5;
const WAITERS: usize = 20;
/// A lease with a renewal each second.
const SHORT_LEASE: Duration = Duration::from_secs(3);

fn flushed_pools(run: &Run, rounds: usize) -> Figure {
    let server = RedisServer::start();
    let worst = on_a_runtime(async {
        let mut clients = Vec::new();
        for _ in 0..HOLDERS {
            clients.push(factory(&server.url(), LockOptions::new().lease(SHORT_LEASE)).await);
        }
        let mut worst = Duration::ZERO;
        for round in 0..rounds {
            let semaphore = |locks: &LockFactory| {
                locks.semaphore(format!("flushed:{round}"), HOLDERS.try_into().unwrap()).unwrap()
            };
            let pools: Vec<_> = clients.iter().map(semaphore).collect();
            worst = worst.max(a_flush(&server, &clients, &pools, &format!("turns:{round}")).await);
        }
        worst
    });
    // A renewal each third of the lease, and some time for its answer.
    let bound = SHORT_LEASE / 3 + Duration::from_millis(500);
    run.bound(worst, bound);
    Figure::new(
        format!(
            "`FLUSHALL` with {HOLDERS} holders of a semaphore and {WAITERS} waiters, and the same of a fair lock"
        ),
        rounds,
        format!(
            "all holders learn of the loss at the next renewal (within {}); the waiters queue again, tokens rise",
            ms(bound)
        ),
        format!("all lost after {}; all served, 0 smaller tokens", ms(worst)),
    )
}

/// Returns the time until the last holder learned of the loss.
async fn a_flush(
    server: &RedisServer,
    clients: &[LockFactory],
    pools: &[Semaphore],
    turns: &str,
) -> Duration {
    let fair: Vec<_> = clients.iter().map(|locks| locks.fair(turns).unwrap()).collect();
    let turn = fair[0].acquire().await.unwrap();
    let mut holders = Vec::new();
    for pool in pools {
        holders.push(pool.acquire().await.unwrap());
    }
    let waiting: Vec<_> = (0..WAITERS)
        .map(|number| {
            let waiting = pools[number % HOLDERS].acquire();
            tokio::spawn(async move { hold_shortly(waiting.await.unwrap()).await })
        })
        .collect();
    let (granted, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let waiting_turns: Vec<_> = (0..WAITERS)
        .map(|number| {
            let (granted, waiting) = (granted.clone(), fair[number % HOLDERS].acquire());
            tokio::spawn(async move {
                let permit = waiting.await.unwrap();
                granted.send(permit.fencing_token()).unwrap();
                hold_shortly(permit).await;
            })
        })
        .collect();
    queued(&pools[0], WAITERS).await;
    queued(&fair[0], WAITERS).await;
    server.command(&["FLUSHALL"]);
    let flushed = Instant::now();
    for holder in &holders {
        assert_eq!(in_time(holder.lost()).await, LostReason::Gone);
    }
    assert_eq!(in_time(turn.lost()).await, LostReason::Gone);
    let noticed = flushed.elapsed();
    for waiting in waiting.into_iter().chain(waiting_turns) {
        in_time(waiting).await.unwrap();
    }
    let mut last = turn.fencing_token();
    for _ in 0..WAITERS {
        let token = tokens.recv().await.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    noticed
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANGS, future).await.expect("no hang")
}

async fn hold_shortly<K>(permit: Permit<K>) {
    tokio::time::sleep(Duration::from_millis(2)).await;
    // One of two that were granted before and after the loss may be lost.
    let _ = permit.release().await;
}
