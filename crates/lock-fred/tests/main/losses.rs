//! Replies that are lost, requests that arrive after their sender gave up, futures that are dropped.

use crate::support::{assert_no_lock_is_left, factory, until};
use lock_core::{ErrorKind, Lock, LockOptions};
use lock_fred::fred::util::sha1_hash;
use lock_testkit::{RedisServer, Seed, TcpProxy};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

const ACQUIRE: &str = include_str!("../../src/scripts/acquire.lua");
const RENEW: &str = include_str!("../../src/scripts/renew.lua");
const RELEASE: &str = include_str!("../../src/scripts/release.lua");

/// The operation timeout is a tenth of the lease.
fn operation_timeout(lease: Duration) -> Duration {
    lease / 10
}

fn contains(chunk: &[u8], what: &str) -> bool {
    chunk.windows(what.len()).any(|window| window == what.as_bytes())
}

/// Loses every other reply of each script, counted name by name: so the repeat gets through.
#[derive(Default)]
struct Loser {
    lost: [AtomicUsize; 3],
    seen: Mutex<HashMap<(usize, String), u64>>,
}

impl Loser {
    fn loses(&self, shas: &[String; 3], chunk: &[u8]) -> bool {
        let Some(script) = shas.iter().position(|sha| contains(chunk, sha)) else { return false };
        let text = String::from_utf8_lossy(chunk);
        let Some(name) = text.split("\r\n").find(|word| word.starts_with("lossy:")) else { return false };
        let mut seen = self.seen.lock().unwrap();
        let times = seen.entry((script, name.to_owned())).or_default();
        *times += 1;
        let lost = *times % 2 == 1;
        if lost {
            self.lost[script].fetch_add(1, Ordering::Relaxed);
        }
        lost
    }

    fn lost(&self) -> [usize; 3] {
        self.lost.each_ref().map(|lost| lost.load(Ordering::Relaxed))
    }
}

/// What a name's holders may not do: be two, or see tokens fall.
#[derive(Default)]
struct Section {
    inside: AtomicUsize,
    token: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_lost_replies_of_each_kind_grant_nothing_twice_and_leave_nothing() {
    const CLIENTS: usize = 50;
    const EACH: usize = 500;
    const LEASE: Duration = Duration::from_secs(2);
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    let loser = Arc::new(Loser::default());
    let sections: Arc<Vec<Section>> = Arc::new((0..CLIENTS / 2).map(|_| Section::default()).collect());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(factory(&proxy.url(), LEASE).await);
    }
    // From here on the scripts are known by their hashes.
    let warm = clients[0]
        .named("warm")
        .unwrap()
        .with_options(LockOptions::new().lease(Duration::from_millis(300)))
        .unwrap();
    let guard = warm.acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    guard.release().await.unwrap();
    let shas = [ACQUIRE, RENEW, RELEASE].map(sha1_hash);
    {
        let loser = loser.clone();
        proxy.lose_replies(move |chunk| loser.loses(&shas, chunk));
    }
    let mut working = Vec::new();
    for (number, locks) in clients.iter().enumerate() {
        let (sections, loser) = (sections.clone(), loser.clone());
        let lock = locks.named(format!("lossy:{}", number / 2)).unwrap();
        working.push(tokio::spawn(async move {
            let section = &sections[number / 2];
            while loser.lost().iter().any(|&lost| lost < EACH) {
                hold(&lock, section, LEASE).await;
            }
        }));
    }
    for work in working {
        work.await.unwrap();
    }
    proxy.pass();
    tokio::time::sleep(2 * operation_timeout(LEASE)).await;
    eprintln!("replies lost on acquire, renew, release: {:?}; no hold lost, none doubled", loser.lost());
    assert_no_lock_is_left(&server);
}

async fn hold(lock: &Lock, section: &Section, lease: Duration) {
    let guard = lock.acquire().await.unwrap();
    assert_eq!(section.inside.fetch_add(1, Ordering::SeqCst), 0, "one holder");
    let token = guard.fencing_token().get();
    assert!(section.token.swap(token, Ordering::SeqCst) < token, "tokens grow");
    // Long enough for a renewal, whose reply is lost, and its repeat.
    tokio::time::sleep(lease * 5 / 12).await;
    assert!(guard.is_held(), "a lost reply is no lost hold");
    section.inside.fetch_sub(1, Ordering::SeqCst);
    match guard.release().await {
        Ok(outcome) => assert!(outcome.was_held(), "a repeated release that finds nothing is a success"),
        // Another connection was not there in time; it is repeated in the background.
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unconfirmed),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_acquires_that_arrive_after_giving_up_leave_nothing() {
    const EACH_ROUND: usize = 20;
    const LEASE: Duration = Duration::from_secs(3);
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    let mut random = Seed::of_this_run().stream();
    let mut clients = Vec::new();
    for _ in 0..EACH_ROUND {
        clients.push(factory(&proxy.url(), LEASE).await);
    }
    clients[0].named("warm").unwrap().acquire().await.unwrap().release().await.unwrap();
    let sha = sha1_hash(ACQUIRE);
    let (mut delivered, mut rounds) = (0, 0);
    while delivered < 200 {
        let sha = sha.clone();
        proxy.capture(move |chunk| contains(chunk, &sha));
        let giving_up: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, locks)| {
                let lock = locks.named(format!("late:{rounds}:{number}")).unwrap();
                tokio::spawn(async move { lock.acquire_timeout(Duration::from_millis(40)).await.map(drop) })
            })
            .collect();
        for given_up in giving_up {
            let error = given_up.await.unwrap().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error:?}");
        }
        // Before, around and after the end of what the requests allow themselves.
        tokio::time::sleep(operation_timeout(LEASE) * u32::try_from(random.below(16)).unwrap() / 10).await;
        proxy.pass();
        delivered += proxy.deliver_captured();
        rounds += 1;
        tokio::time::sleep(2 * operation_timeout(LEASE)).await;
        assert_no_lock_is_left(&server);
    }
    eprintln!("{delivered} late acquires in {rounds} rounds, nothing left two operation timeouts later");
    // And the names are as good as new.
    let again = clients[0].named("late:0:0").unwrap().try_acquire().await.unwrap().expect("it is free");
    again.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_that_are_dropped_at_any_time_leave_nothing() {
    const DROPPED: u64 = 3_000;
    const LEASE: Duration = Duration::from_secs(30);
    let server = RedisServer::start();
    let seed = Seed::of_this_run();
    let clients = [factory(&server.url(), LEASE).await, factory(&server.url(), LEASE).await];
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let locks = clients[task % 2].clone();
            let mut random = Seed::new(seed.get() ^ task as u64).stream();
            tokio::spawn(async move {
                for _ in 0..DROPPED / 16 {
                    let lock = locks.named(format!("dropped:{}", random.below(4))).unwrap();
                    let patience = Duration::from_micros(random.below(4_000));
                    if let Ok(guard) = tokio::time::timeout(patience, lock.acquire()).await {
                        drop(guard.unwrap());
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    until("everything is given back", async || {
        server.keys().iter().all(|key| key.starts_with("redisson_lock_token:")) && server.subscriptions() == 0
    })
    .await;
    for locks in &clients {
        assert!(locks.shutdown().await.is_clean());
    }
}
