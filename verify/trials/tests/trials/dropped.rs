//! Acquire futures that are dropped: at random times, after each poll, and while their requests are held at a gate.

use crate::{
    figure::{Figure, Run, ms},
    stage::{ENDLESS, factory, lock, on_a_runtime, orphans, store, until},
};
use lock_core::{LockFactory, LockOptions};
use lock_testkit::{FaultyBackend, Op, Phase, RedisServer, Seed};
use std::{
    future::poll_fn,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

const TASKS: u64 = 16;
/// More polls than an acquire needs before it is answered or sleeps. Futures that need fewer do not count.
const POLLS: usize = 4;
const WITHIN: Duration = Duration::from_secs(1);

pub(crate) fn dropped_acquires(run: &Run) -> Vec<Figure> {
    on_a_runtime(async {
        let (random, after) = at_random(*run).await;
        let polls = after_each_poll().await;
        let gates = at_each_gate(run.times(1, 20)).await;
        run.bound(after, WITHIN);
        vec![Figure::new(
            "acquire futures dropped: at random / after each poll / at each gate",
            format!("{random} / {polls} / {gates}"),
            format!("nothing left after {}", ms(WITHIN)),
            format!("0 orphans after {}", ms(after)),
        )]
    })
}

async fn at_random(run: Run) -> (u64, Duration) {
    let dropped = run.times(2_000, 10_000) / TASKS;
    let server = RedisServer::start();
    let options = LockOptions::new().lease(ENDLESS);
    let clients = [factory(&server.url(), options).await, factory(&server.url(), options).await];
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let locks = clients[usize::try_from(task % 2).unwrap()].clone();
            let mut random = Seed::new(run.seed.get() ^ task).stream();
            tokio::spawn(async move {
                let mut done = 0;
                while done < dropped {
                    let lock = lock(&locks, &format!("dropped:{}", random.below(4)));
                    let patience = Duration::from_micros(random.below(4_000));
                    match tokio::time::timeout(patience, lock.acquire()).await {
                        Ok(guard) => drop(guard.unwrap()),
                        Err(_) => done += 1,
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let after = nothing_is_left(&server, "at random").await;
    until("subscriptions are ended", async || server.subscriptions() == 0).await;
    for locks in &clients {
        assert!(locks.shutdown().await.is_clean());
    }
    (dropped * TASKS, after)
}

/// Drops futures after each number of polls, on a free and on a held lock.
async fn after_each_poll() -> usize {
    let server = RedisServer::start();
    let options = LockOptions::new().lease(ENDLESS);
    let (holder, locks) = (factory(&server.url(), options).await, factory(&server.url(), options).await);
    let mut dropped = 0;
    for held in [false, true] {
        for polls in 1..=POLLS {
            let guard = if held { Some(lock(&holder, "x").acquire().await.unwrap()) } else { None };
            dropped += usize::from(is_dropped_after(lock(&locks, "x").acquire(), polls).await);
            drop(guard);
            nothing_is_left(&server, &format!("after {polls} polls, held {held}")).await;
        }
    }
    dropped
}

/// Returns `true` if the future was polled this often without an answer, and then dropped.
async fn is_dropped_after<F: Future>(acquiring: F, polls: usize) -> bool {
    let (mut acquiring, mut polled) = (pin!(acquiring), 0);
    let polling = poll_fn(|context| {
        if acquiring.as_mut().poll(context).is_ready() {
            return Poll::Ready(false);
        }
        polled += 1;
        if polled == polls { Poll::Ready(true) } else { Poll::Pending }
    });
    tokio::time::timeout(Duration::from_millis(100), polling).await.unwrap_or(false)
}

/// Drops futures before a request is sent and after it is answered: for the first acquire, the subscription, the
/// attempt that follows it, and the attempt after the wake-up.
async fn at_each_gate(rounds: usize) -> usize {
    let server = RedisServer::start();
    let options = LockOptions::new().lease(ENDLESS);
    let holder = factory(&server.url(), options).await;
    let faulty = FaultyBackend::new(store(&server.url()).await);
    let locks = LockFactory::builder(faulty.clone()).options(options).build().unwrap();
    let mut dropped = 0;
    for _ in 0..rounds {
        for (op, nth) in [(Op::Acquire, 0), (Op::Subscribe, 0), (Op::Acquire, 1), (Op::Acquire, 2)] {
            for phase in [Phase::Before, Phase::After] {
                // Subscriptions linger, so each case has its own name.
                let name = format!("x:{dropped}");
                let guard = lock(&holder, &name).acquire().await.unwrap();
                let open: Vec<_> = (0..nth).map(|_| faulty.gate(op, phase)).collect();
                open.iter().for_each(lock_testkit::Gate::open);
                let gate = faulty.gate(op, phase);
                let tried = faulty.applied(Op::Acquire);
                let acquiring = tokio::spawn(lock(&locks, &name).acquire());
                // The last attempt is the one after the wake-up.
                let mut guard = Some(guard);
                if nth == 2 {
                    until("the acquire sleeps", async || faulty.applied(Op::Acquire) >= tried + 2).await;
                    drop(guard.take());
                }
                gate.reached().await;
                acquiring.abort();
                assert!(acquiring.await.is_err_and(|error| error.is_cancelled()), "{op:?} {nth} {phase:?}");
                drop((gate, guard));
                dropped += 1;
                nothing_is_left(&server, &format!("{op:?} {nth} {phase:?}")).await;
            }
        }
    }
    dropped
}

/// Returns the time until the last key is gone. Subscriptions linger for 2 s in case they are needed again.
async fn nothing_is_left(server: &RedisServer, of: &str) -> Duration {
    let begin = Instant::now();
    until(&format!("no key is left, dropped {of}"), async || orphans(server).is_empty()).await;
    begin.elapsed()
}
