//! Lost replies: the request was executed, but its sender cannot know that.

use crate::{
    figure::{Figure, Run},
    stage::{assert_all_released, factory, lock, on_a_runtime, warm_up},
};
use lock_core::{Lock, LockErrorKind, LockOptions};
use lock_redis::model::marks;
use lock_testkit::{RedisServer, TcpProxy};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

const CLIENTS: usize = 50;
/// The number of kinds of request: acquires, renewals, releases by the script and by two commands.
const KINDS: usize = 4;
const LEASE: Duration = Duration::from_secs(5);

/// Returns the operation timeout, a tenth of the lease.
pub(crate) fn operation_timeout(lease: Duration) -> Duration {
    lease / 10
}

pub(crate) fn contains(chunk: &[u8], what: &str) -> bool {
    chunk.windows(what.len()).any(|window| window == what.as_bytes())
}

pub(crate) fn lost_replies(run: &Run) -> Vec<Figure> {
    on_a_runtime(replies_are_lost(run.times(100, 1_000)))
}

async fn replies_are_lost(each: usize) -> Vec<Figure> {
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    let loser = Arc::new(Loser::default());
    let sections: Arc<Vec<Section>> = Arc::new((0..CLIENTS / 2).map(|_| Section::default()).collect());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(factory(&proxy.url(), LockOptions::new().lease(LEASE)).await);
    }
    warm_up(&clients[0]).await;
    {
        let loser = loser.clone();
        proxy.lose_replies(move |chunk| loser.loses(&marks(), chunk));
    }
    let mut working = Vec::new();
    for (number, locks) in clients.iter().enumerate() {
        let (sections, loser) = (sections.clone(), loser.clone());
        let lock = lock(locks, &format!("lossy:{}", number / 2));
        working.push(tokio::spawn(async move {
            let section = &sections[number / 2];
            while loser.lost().iter().any(|&lost| lost < each) {
                hold(&lock, section).await;
            }
        }));
    }
    for work in working {
        work.await.unwrap();
    }
    proxy.pass();
    tokio::time::sleep(2 * operation_timeout(LEASE)).await;
    assert_all_released(&server, LEASE).await;
    let lost = loser.lost().map(|lost| lost.to_string()).join(" / ");
    vec![Figure::new(
        "lost replies of acquire / renew / release by script / by commands; 50 clients",
        lost,
        "no double grant; no orphan after two operation timeouts; no false `Lost`",
        "0, 0, 0",
    )]
}

/// Loses every other reply to each kind of request, counted per lease, so that the repeat gets through regardless of the
/// requests of the name's other waiter.
///
/// A lease whose acquire or renewal had no reply is released by the script, so half of the leases lose only replies to
/// the commands that release the others.
#[derive(Default)]
struct Loser {
    lost: [AtomicUsize; KINDS],
    seen: Mutex<HashMap<(usize, String), u64>>,
}

impl Loser {
    fn loses(&self, marks: &[&str; KINDS], chunk: &[u8]) -> bool {
        let Some(request) = marks.iter().position(|mark| contains(chunk, mark)) else { return false };
        let text = String::from_utf8_lossy(chunk);
        let is_lease = |word: &&str| word.get(..36).is_some_and(|id| uuid::Uuid::try_parse(id).is_ok());
        let mut words = text.split("\r\n");
        if !words.clone().any(|word| word.starts_with("lossy:")) {
            return false;
        }
        let Some(lease) = words.find(is_lease) else { return false };
        if request < KINDS - 1 && lease.ends_with(['1', '3', '5', '7', '9']) {
            return false;
        }
        let mut seen = self.seen.lock().unwrap();
        let times = seen.entry((request, lease.to_owned())).or_default();
        *times += 1;
        let lost = *times % 2 == 1;
        if lost {
            self.lost[request].fetch_add(1, Ordering::Relaxed);
        }
        lost
    }

    fn lost(&self) -> [usize; KINDS] {
        self.lost.each_ref().map(|lost| lost.load(Ordering::Relaxed))
    }
}

/// The holder and token of a name. There must never be two holders, and tokens must increase.
#[derive(Default)]
struct Section {
    inside: AtomicUsize,
    token: AtomicU64,
}

async fn hold(lock: &Lock, section: &Section) {
    let guard = lock.acquire().await.unwrap();
    assert_eq!(section.inside.fetch_add(1, Ordering::SeqCst), 0, "one holder");
    let token = guard.fencing_token().get();
    assert!(section.token.swap(token, Ordering::SeqCst) < token, "tokens rise");
    // Long enough for a renewal with a lost reply, and its repeat.
    tokio::time::sleep(LEASE * 5 / 12).await;
    assert!(guard.is_held(), "a lost reply does not end the hold");
    section.inside.fetch_sub(1, Ordering::SeqCst);
    match guard.release().await {
        Ok(outcome) => assert!(outcome.was_held(), "held until the release"),
        // The reply was lost, or another connection was not available in time.
        Err(error) => assert_eq!(error.kind(), LockErrorKind::Unconfirmed),
    }
}
