//! Batches on a real server: each item is answered as by its own script, and none is lost when scripts or connections
//! are lost.

use super::{
    altered::Altered,
    support::{answered, assert_no_lock_is_left, calls, client, factory, long, name, redis},
};
use futures_util::future::join_all;
use lock_core::{
    FencingToken, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendError, BackendErrorKind,
        BackendExt as _, LeaseId, LeaseNumber, NotifyWaiters, ProcessId, ReleaseRequest, Released,
        RenewRequest, Renewed,
    },
    clock::UtcTime,
};
use lock_redis::{Address, RedisBackendBuilder};
use lock_testkit::{
    RedisServer, TcpProxy,
    contender::Contender,
    planted::{Checker, PlantedBug},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const LEASE: Duration = Duration::from_secs(60);

/// An operation that fails or succeeds in its own way.
#[derive(Debug, Clone)]
enum Item {
    Acquire(AcquireRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
}

/// The kind of an answer, for comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Nature {
    Failed(BackendErrorKind, Applied),
    Acquired(&'static str),
    Renewed(Renewed),
    Released(Released),
}

impl Item {
    async fn ask(self, store: &dyn Backend) -> Nature {
        let answer = async {
            Ok::<_, BackendError>(match self {
                Self::Acquire(request) => Nature::Acquired(match store.acquire(request).await?.outcome {
                    Acquired::Granted { .. } => "granted",
                    Acquired::Busy { .. } => "busy",
                    Acquired::Late => "late",
                    Acquired::Gone => "gone",
                    other => panic!("{other:?}"),
                }),
                Self::Renew(request) => Nature::Renewed(store.renew(vec![request]).await.remove(0)?.outcome),
                Self::Release(request) => Nature::Released(store.release(request).await?.outcome),
            })
        };
        answer.await.unwrap_or_else(|error| Nature::Failed(error.kind(), error.applied()))
    }
}

fn acquire(lock: &str, mode: AcquireMode, not_after: UtcTime) -> Item {
    let lease = LeaseId::new(ProcessId::random(), LeaseNumber::new(1));
    let retention = Retention::Backend;
    Item::Acquire(AcquireRequest { name: name(lock), lease, duration: LEASE, not_after, mode, retention })
}

/// Returns one operation of each kind, on locks with these prefixes, and the expected answers.
fn one_of_each(lease: LeaseId) -> Vec<(Item, Nature)> {
    let floor = AcquireMode::New { reserve: 0, floor: Some(FencingToken::new(1 << 53)) };
    let (later, earlier) = (UtcTime::from_micros(1 << 52), UtcTime::from_micros(1));
    let renew = |lock: &str, not_after| {
        Item::Renew(RenewRequest { name: name(lock), lease, duration: LEASE, not_after })
    };
    let release = |lock: &str, depth_left| {
        let notify = NotifyWaiters::Yes;
        Item::Release(ReleaseRequest { name: name(lock), lease, depth_left, notify })
    };
    use BackendErrorKind::{Denied, Misconfigured, WrongType};
    let certain = |kind| Nature::Failed(kind, Applied::No);
    vec![
        (acquire("may:string", NEW, later), certain(WrongType)),
        (acquire("may:counter", NEW, later), certain(WrongType)),
        (acquire("may:high", floor, later), certain(Misconfigured)),
        (acquire("may:held", NEW, later), Nature::Acquired("busy")),
        (acquire("may:late", NEW, earlier), Nature::Acquired("late")),
        (acquire("may:free", AcquireMode::Reenter { depth: 2 }, later), Nature::Acquired("gone")),
        (acquire("never:1", NEW, later), certain(Denied)),
        (renew("may:string", later), certain(WrongType)),
        (renew("may:free", later), Nature::Renewed(Renewed::Gone)),
        (renew("may:held", later), Nature::Renewed(Renewed::Renewed)),
        (renew("may:held", earlier), Nature::Renewed(Renewed::Late)),
        (release("may:string", 0), Nature::Released(Released::Gone { held_by_other: true })),
        (release("may:free", 0), Nature::Released(Released::Gone { held_by_other: false })),
        (release("may:held", 1), Nature::Released(Released::Kept)),
    ]
}

async fn alone(store: &dyn Backend, items: Vec<Item>) -> Vec<Nature> {
    let mut natures = Vec::new();
    for item in items {
        natures.push(item.ask(store).await);
    }
    natures
}

/// Executes the items in one call, after an operation that is sent alone.
async fn together(store: &dyn Backend, items: Vec<Item>) -> Vec<Nature> {
    let first = acquire("may:late", NEW, UtcTime::from_micros(1));
    let items = [first].into_iter().chain(items);
    join_all(items.map(|item| item.ask(store))).await.split_off(1)
}

const NEW: AcquireMode = AcquireMode::New { reserve: 0, floor: None };

const RIGHTS: &str = "shop on >secret resetkeys ~may:* ~redisson_lock_token:* ~distlock:* allchannels +@all";

fn shop(server: &RedisServer) -> String {
    format!("redis://shop:secret@127.0.0.1:{}", server.port())
}

async fn stage() -> (RedisServer, Arc<dyn Backend>, Vec<(Item, Nature)>) {
    let server = RedisServer::builder().user(RIGHTS).start();
    let store = client(&shop(&server)).await;
    server.command(&["SET", "may:string", "no lock"]);
    server.command(&["SET", "redisson_lock_token:{may:counter}", "1e15"]);
    let holder = Contender::new(&store);
    holder.take(&name("may:held"), LEASE).await;
    let items = one_of_each(holder.lease());
    // Loads every script.
    alone(&*store, items.iter().map(|(item, _)| item.clone()).collect()).await;
    together(&*store, items.iter().take(2).map(|(item, _)| item.clone()).collect()).await;
    (server, store, items)
}

#[tokio::test]
async fn operations_of_each_kind_are_answered_individually() {
    let (server, store, items) = stage().await;
    let (items, natures): (Vec<_>, Vec<_>) = items.into_iter().unzip();
    assert_eq!(alone(&*store, items.clone()).await, natures);
    let before = calls(&server, "evalsha");
    assert_eq!(together(&*store, items.clone()).await, natures);
    // Two requests are refused before they run: the batch, because of the denied key, and that item alone.
    assert_eq!(calls(&server, "evalsha") - before, 1 + (items.len() as u64 - 1));
    let (items, natures): (Vec<_>, Vec<_>) =
        items.into_iter().zip(natures).filter(|(_, nature)| !is_denied(nature)).unzip();
    let before = calls(&server, "evalsha");
    assert_eq!(together(&*store, items).await, natures);
    assert_eq!(calls(&server, "evalsha") - before, 2, "one call for the first, and one for all others");
    assert!(!server.keys().contains(&"may:free".to_owned()));
}

/// The answers to [`one_of_each`] reveal every bug of the batch script.
#[tokio::test]
async fn planted_bugs_of_the_batch_are_caught() {
    let (server, _, items) = stage().await;
    let address = Address::parse(&shop(&server)).unwrap();
    let (items, natures): (Vec<_>, Vec<_>) =
        items.into_iter().filter(|(_, nature)| !is_denied(nature)).unzip();
    let answers = async |bug| {
        // The server no longer knows the batch script, and never learns it again.
        server.command(&["SCRIPT", "FLUSH"]);
        let store = RedisBackendBuilder::new(Altered::with(bug), address.clone()).connect().await.unwrap();
        together(&store, items.clone()).await
    };
    assert_eq!(answers(None).await, natures, "with the unmodified script");
    for bug in PlantedBug::caught_by_checker(Checker::Redis) {
        assert_ne!(answers(Some(bug)).await, natures, "{bug:?} is not caught");
    }
}

fn is_denied(nature: &Nature) -> bool {
    matches!(nature, Nature::Failed(BackendErrorKind::Denied, _))
}

/// The batch script continues after a denied command.
#[tokio::test]
async fn missing_permission_is_reported_as_by_the_single_script() {
    for command in ["-pexpire", "-hset", "-set", "-hdel", "-pttl", "-hexists"] {
        let (server, store, items) = stage().await;
        server.command(&["ACL", "SETUSER", "shop", command]);
        let free = acquire("may:free", NEW, UtcTime::from_micros(1 << 52));
        let items: Vec<_> =
            items.into_iter().map(|(item, _)| item).filter(|item| !is_elsewhere(item)).collect();
        let items = [vec![free.clone()], items, vec![free]].concat();
        let expected = alone(&*store, items.clone()).await;
        assert!(expected.iter().any(is_denied), "{command}: {expected:?}");
        let before = calls(&server, "evalsha");
        assert_eq!(together(&*store, items).await, expected, "{command}");
        assert_eq!(calls(&server, "evalsha") - before, 2);
        let left = server.command(&["PTTL", "may:free"]).integer();
        assert_ne!(left, -1, "{command}: nothing is left without an expiry");
    }
}

fn is_elsewhere(item: &Item) -> bool {
    matches!(item, Item::Acquire(request) if request.name.as_str().starts_with("never:"))
}

#[tokio::test]
async fn full_memory_is_reported_as_by_the_single_script() {
    let (server, store, items) = stage().await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let later = UtcTime::from_micros(1 << 52);
    let frees = ["may:free", "may:too"].map(|lock| acquire(lock, NEW, later));
    // After the first write of a script, the server no longer refuses commands for lack of memory.
    let items: Vec<_> = frees.into_iter().chain(items.into_iter().map(|(item, _)| item).take(1)).collect();
    let expected = alone(&*store, items.clone()).await;
    let full = Nature::Failed(BackendErrorKind::Unavailable, Applied::No);
    assert_eq!(expected[..2], [full.clone(), full]);
    assert_eq!(together(&*store, items).await, expected);
}

/// Scripts are flushed every 10 ms and connections are cut constantly. Every operation is answered, and no lock is
/// left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_scripts_and_connections_lose_no_operation() {
    let cycles = if long() { 2_000 } else { 100 };
    let server = Arc::new(RedisServer::start());
    let proxy = Arc::new(TcpProxy::start(server.address()));
    let locks = factory(&proxy.url(), Duration::from_secs(30)).await;
    let done = Arc::new(AtomicBool::new(false));
    let disturbing = {
        let (server, proxy, done) = (server.clone(), proxy.clone(), done.clone());
        tokio::spawn(async move {
            for round in 1.. {
                if done.load(Ordering::SeqCst) {
                    return round;
                }
                server.command(&["SCRIPT", "FLUSH"]);
                if round % 30 == 0 {
                    proxy.cut();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            0
        })
    };
    let working: Vec<_> = (0..64)
        .map(|number| {
            let lock = locks.named(format!("x:{number}")).unwrap();
            tokio::spawn(async move {
                let mut token = None;
                for _ in 0..cycles {
                    let guard = answered("an acquire", lock.acquire()).await.expect("running server");
                    assert!(token < Some(guard.fencing_token()), "tokens rise");
                    token = Some(guard.fencing_token());
                    // The release may be lost with its connection; the factory repeats it.
                    let _ = answered("a release", guard.release()).await;
                }
            })
        })
        .collect();
    for work in working {
        work.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    let rounds = disturbing.await.unwrap();
    eprintln!("{} cycles, scripts forgotten {rounds} times", 64 * cycles);
    locks.shutdown().await;
    assert_no_lock_is_left(&server);
}

/// The future of an operation does not need a runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_of_many_threads_share_the_connection() {
    let server = RedisServer::start();
    let backend = redis(&server.url()).await;
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let backend = backend.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    let later = UtcTime::from_micros(1 << 52);
                    for number in 0..50 {
                        let item = acquire(&format!("x:{thread}:{number}"), NEW, later);
                        assert_eq!(item.ask(&backend).await, Nature::Acquired("granted"));
                    }
                });
            })
        })
        .collect();
    tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| thread.join().unwrap()))
        .await
        .unwrap();
    assert_eq!(server.clients(), 2);
}
