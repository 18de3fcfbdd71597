//! Wake-ups: the delay until a waiter of another process continues, and the independence from wake-ups.

use super::support::{WakeUps, answered, assert_no_lock_is_left, calls, factory, long, name, redis, until};
use lock_core::{LockFactory, observer::WakeSource};
use lock_testkit::{RedisServer, Seed};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(30);

/// Two processes pass the lock to each other; each waits while the other holds it. Messages wake them, so that hardly
/// any waiter has to poll. Long runs limit the time that this takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_wakes_the_waiter_of_another_process() {
    let hand_overs = if long() { 1_000 } else { 100 };
    let (server, wake_ups) = (RedisServer::start(), WakeUps::default());
    let locks = [wake_ups.of(&server.url(), LEASE).await, wake_ups.of(&server.url(), LEASE).await];
    let lock = |turn: usize| locks[turn % 2].named("x").unwrap();
    let mut held = lock(0).acquire().await.unwrap();
    let mut took = Vec::with_capacity(hand_overs);
    for turn in 1..=hand_overs {
        let waiting = tokio::spawn(lock(turn).acquire());
        // Until the first attempt is answered. The waiter then waits for a message.
        while locks[turn % 2].inspect(&name("x")).await.unwrap().waiters == 0 {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        let released = Instant::now();
        let releasing = tokio::spawn(held.release());
        held = answered("the waiter", waiting).await.unwrap().unwrap();
        took.push(released.elapsed());
        releasing.await.unwrap().unwrap();
    }
    took.sort_unstable();
    let (p50, p99) = (took[hand_overs / 2], took[hand_overs * 99 / 100]);
    eprintln!(
        "from release to the grant of another process, {hand_overs} times: p50 {p50:?}, p99 {p99:?}, max {:?}",
        took[hand_overs - 1]
    );
    let (pushes, polls) = (wake_ups.count("x", WakeSource::Push), wake_ups.count("x", WakeSource::Poll));
    assert!(
        pushes > hand_overs / 2 && polls < hand_overs / 10,
        "{hand_overs} hand-overs: {pushes} by message, {polls} by polling"
    );
    assert!(!long() || p99 <= Duration::from_millis(20), "p99 {p99:?}");
}

/// The lines of the page for operators free a lock, and wake its waiter.
#[tokio::test]
async fn redis_cli_lines_free_the_lock_and_wake_the_waiter() {
    const PAGE: &str = include_str!("../../../../docs/operating.md");
    let lines: Vec<_> = PAGE.lines().skip_while(|line| *line != "DEL stock:42").take(2).collect();
    let (server, wake_ups) = (RedisServer::start(), WakeUps::default());
    let locks = [wake_ups.of(&server.url(), LEASE).await, wake_ups.of(&server.url(), LEASE).await];
    let held = locks[0].named("stock:42").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(locks[1].named("stock:42").unwrap().acquire());
    until("the waiter is subscribed", async || server.subscriptions() == 1).await;
    // Its attempts after the subscription.
    tokio::time::sleep(Duration::from_millis(100)).await;
    for line in &lines {
        let command: Vec<_> = line.split(' ').collect();
        assert_eq!(server.command(&command).integer(), 1, "{line}");
    }
    let guard = answered("the waiter", waiting).await.unwrap().unwrap();
    let (pushes, polls) =
        (wake_ups.count("stock:42", WakeSource::Push), wake_ups.count("stock:42", WakeSource::Poll));
    assert!(pushes > 0 && polls == 0, "{pushes} by message, {polls} by polling");
    assert!(guard.fencing_token() > held.fencing_token());
    guard.release().await.unwrap();
}

/// The key disappears without any message.
#[tokio::test]
async fn waiter_without_a_message_polls() {
    let server = RedisServer::start();
    let mut waits = Vec::new();
    for (lock, pttl) in [("short", 1_500), ("long", 600_000)] {
        server.command(&["HSET", lock, "b983c153-7421-469a-addb-44fb92259a1b:1", "1"]);
        server.command(&["PEXPIRE", lock, &pttl.to_string()]);
        let locks = factory(&server.url(), LEASE).await;
        let waiting = tokio::spawn(locks.named(lock).unwrap().acquire());
        until("the waiter is subscribed", async || server.subscriptions() == waits.len() + 1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.command(&["DEL", lock]);
        waits.push((Instant::now(), waiting, locks));
    }
    // After 1.5 s and 5 s, plus a little jitter. The hold of the second lock would have lasted for ten minutes.
    for (gone, waiting, _locks) in waits {
        let guard = answered("a waiter without a wake-up", waiting).await.unwrap().unwrap();
        eprintln!("a waiter without a wake-up was granted after {:?}", gone.elapsed());
        guard.release().await.unwrap();
    }
}

/// Even if the reader of one process lags, every factory of the backend is notified of a released name once it is
/// subscribed, and the channel is unsubscribed when nobody waits.
#[tokio::test]
async fn channels_are_unsubscribed_when_nobody_waits() {
    let server = RedisServer::start();
    let backend = redis(&server.url()).await;
    let locks = [LockFactory::new(backend.clone()), LockFactory::new(backend)];
    let holder = factory(&server.url(), LEASE).await;
    let guard = holder.named("x").unwrap().acquire().await.unwrap();
    let waiting = locks.each_ref().map(|locks| {
        let lock = locks.named("x").unwrap();
        tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
    });
    until("both waiters share one channel", async || server.subscriptions() == 1).await;
    guard.release().await.unwrap();
    for waiting in waiting {
        assert!(waiting.await.unwrap().was_held());
    }
    until("the channel is unsubscribed", async || server.subscriptions() == 0).await;
    assert_no_lock_is_left(&server);
}

/// The order in which random names are released does not matter: all names share one connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_subscriber_serves_a_thousand_names() {
    let (server, mut random) = (RedisServer::start(), Seed::of_this_run().stream());
    let (holder, waiter) = (factory(&server.url(), LEASE).await, factory(&server.url(), LEASE).await);
    let mut held = Vec::new();
    for number in 0..1_000 {
        held.push(holder.named(format!("x:{number}")).unwrap().acquire().await.unwrap());
    }
    let waiting: Vec<_> = (0..1_000)
        .map(|number| tokio::spawn(waiter.named(format!("x:{number}")).unwrap().acquire()))
        .collect();
    until("all waiters are subscribed", async || server.subscriptions() == 1_000).await;
    assert_eq!(server.clients(), 4, "two connections per process");
    while !held.is_empty() {
        let guard = held.swap_remove(usize::try_from(random.below(held.len() as u64)).unwrap());
        guard.release().await.unwrap();
    }
    let begin = Instant::now();
    for waiting in waiting {
        answered("a waiter", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
    eprintln!("a thousand waiters were served after {:?}", begin.elapsed());
    until("all channels are unsubscribed", async || server.subscriptions() == 0).await;
}

#[tokio::test]
async fn holder_without_an_expiry_is_not_polled_quickly() {
    let server = RedisServer::start();
    server.command(&["HSET", "x", "somebody", "1"]);
    let locks = factory(&server.url(), Duration::from_secs(30)).await;
    let waiting = tokio::spawn(locks.named("x").unwrap().acquire());
    until("the waiter is subscribed", async || server.subscriptions() == 1).await;
    let before = calls(&server, "evalsha");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = calls(&server, "evalsha") - before;
    waiting.abort();
    assert!(asked <= 3, "{asked} requests in 5 s for one name");
}
