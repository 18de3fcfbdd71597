//! Fifty clients under random faults for minutes: no holds overlap, no updates are lost, and nothing is left in the
//! server or in the process afterwards.
//!
//! The faults keep the server's data, so that no overlap is excusable. `tokens.rs` has the faults that lose data.

use crate::{
    figure::{Figure, Run},
    stage::{HANGS, Referee, blocking, factory, lock, on_a_runtime, orphans, until},
};
use lock_core::{LockError, LockFactory, LockGuard, LockOptions};
use lock_testkit::{Direction, RedisServer, Seed, Stream, TcpProxy};
use lock_trials::referee::Witness;
use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const CLIENTS: u64 = 50;
const NAMES: u64 = 10;
const LEASE: Duration = Duration::from_secs(1);
/// The allocator keeps some memory that was used once.
const SLACK_MIB: u64 = 16;

pub(crate) fn soak(run: &Run) -> Vec<Figure> {
    let (server, referee) = (Arc::new(RedisServer::builder().persistent().start()), Referee::appears());
    let witness = referee.bench().witness(LEASE / 20);
    // Excludes one-time allocations: loaded code, and arenas of the allocator, which grow in the first round and are
    // kept in the second.
    for _ in 0..2 {
        on_a_runtime(a_while(&server, &witness, run.seed, Duration::from_secs(2)));
    }
    let (memory, descriptors) = (memory_mib(), descriptors());
    let time = Duration::from_secs(run.times(8, 600));
    let done = on_a_runtime(a_while(&server, &witness, run.seed, time));
    let (grown, more) =
        (memory_mib().saturating_sub(memory), self::descriptors().saturating_sub(descriptors));
    drop(witness);
    let (windows, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    assert_eq!(more, 0, "open descriptors are left");
    assert!(grown <= SLACK_MIB, "the process grew by {grown} MiB");
    vec![Figure::new(
        "soak: random faults, 50 clients, 10 names",
        format!("{} s, {} faults, {} holds, {} errors", time.as_secs(), done.faults, done.holds, done.errors),
        "no violation; memory and descriptors back to their start",
        format!(
            "0 overlaps in {windows} holds, 0 lost updates, 0 keys left, {memory} MiB +{grown}, {descriptors} descriptors +{more}"
        ),
    )]
}

struct Done {
    faults: u64,
    holds: u64,
    errors: u64,
}

/// The state shared by the clients.
struct World {
    over: AtomicBool,
    resources: Vec<Mutex<Resource>>,
    holds: AtomicU64,
    errors: AtomicU64,
    witness: Witness,
}

/// Two numbers, each read and later written. The writes are counted separately, so that a lost update shows as a
/// difference.
#[derive(Default)]
struct Resource {
    /// Written by clients that still hold the lock; protected only by the lock.
    bare: Counted,
    /// Written by any client; protected by a fence.
    fenced: Counted,
    fence: u64,
}

#[derive(Default)]
struct Counted {
    value: u64,
    writes: u64,
}

impl Counted {
    fn write(&mut self, value: u64) {
        self.value = value;
        self.writes += 1;
    }
}

async fn a_while(server: &Arc<RedisServer>, witness: &Witness, seed: Seed, time: Duration) -> Done {
    let way = Arc::new(TcpProxy::start(server.address()));
    let world = Arc::new(World {
        over: AtomicBool::new(false),
        resources: (0..NAMES).map(|_| Mutex::default()).collect(),
        holds: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        witness: witness.clone(),
    });
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(factory(&way.url(), LockOptions::new().lease(LEASE)).await);
    }
    let working: Vec<_> = (0..CLIENTS)
        .zip(&clients)
        .map(|(number, locks)| {
            let random = Seed::new(seed.get() ^ number).stream();
            tokio::spawn(work(locks.clone(), world.clone(), random))
        })
        .collect();
    let faults = make_trouble(server, &way, &mut seed.stream(), time).await;
    way.pass();
    // After the faults, all clients continue.
    let before = world.holds.load(Ordering::Relaxed);
    until("the clients recover", async || world.holds.load(Ordering::Relaxed) > before + CLIENTS).await;
    world.over.store(true, Ordering::Relaxed);
    for work in working {
        tokio::time::timeout(HANGS, work).await.expect("no hang").unwrap();
    }
    for resource in &world.resources {
        let resource = resource.lock().unwrap();
        assert_eq!(resource.bare.value, resource.bare.writes, "no update by a holder is lost");
        assert_eq!(resource.fenced.value, resource.fenced.writes, "no update behind the fence is lost");
    }
    for locks in &clients {
        locks.shutdown().await;
    }
    drop(clients);
    until("no key and no connection is left", async || orphans(server).is_empty() && server.clients() == 0)
        .await;
    Done { faults, holds: world.holds.load(Ordering::Relaxed), errors: world.errors.load(Ordering::Relaxed) }
}

async fn make_trouble(
    server: &Arc<RedisServer>,
    way: &Arc<TcpProxy>,
    random: &mut Stream,
    time: Duration,
) -> u64 {
    let (begin, mut faults) = (Instant::now(), 1);
    // All clients dial again at once, so that the first round also includes the memory for that.
    way.cut();
    while begin.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(random.below(400))).await;
        // Shorter or longer than a lease: some holds survive it, others do not.
        let lasts = LEASE * u32::try_from(random.below(13)).unwrap() / 10;
        faults += 1;
        match random.below(10) {
            0 => way.cut(),
            1 => way.refuse(),
            2 => way.stall(Direction::ToServer),
            3 => way.stall(Direction::ToClient),
            4 => way.stall(Direction::Both),
            5 => way.delay(Duration::from_millis(random.below(120))),
            6 => {
                let dice = Mutex::new(Seed::new(random.number()).stream());
                way.lose_replies(move |_| dice.lock().unwrap().below(20) == 0);
            }
            7 => {
                blocking(server, move |server| {
                    server.pause();
                    std::thread::sleep(lasts);
                    server.resume();
                })
                .await;
                continue;
            }
            8 => {
                blocking(server, |server| {
                    server.command(&["SCRIPT", "FLUSH"]);
                    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
                    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
                })
                .await;
                continue;
            }
            _ => {
                // With all data that it has acknowledged.
                blocking(server, |server| {
                    server.shutdown();
                    server.restart();
                })
                .await;
                continue;
            }
        }
        tokio::time::sleep(lasts).await;
        way.pass();
    }
    faults
}

async fn work(locks: LockFactory, world: Arc<World>, mut random: Stream) {
    while !world.over.load(Ordering::Relaxed) {
        let name = random.below(NAMES);
        let lock = lock(&locks, &format!("soak:{name}"));
        let granted = match random.below(8) {
            0 => lock.try_acquire().await,
            // Dropped at a random moment.
            1 => {
                let patience = Duration::from_micros(random.below(30_000));
                tokio::time::timeout(patience, lock.acquire()).await.ok().transpose()
            }
            _ => lock.acquire_timeout(Duration::from_millis(500)).await.map(Some),
        };
        match granted {
            Ok(Some(guard)) => {
                let resource = &world.resources[usize::try_from(name).unwrap()];
                hold(guard, resource, &world, &mut random).await;
            }
            Ok(None) => {}
            Err(error) => world.note(&error),
        }
    }
}

async fn hold(guard: LockGuard, resource: &Mutex<Resource>, world: &World, random: &mut Stream) {
    let inside = world.witness.enters(guard.hold());
    world.holds.fetch_add(1, Ordering::Relaxed);
    let token = guard.fencing_token().get();
    let (bare, fenced) = resource.lock().unwrap().read(token);
    // Usually short, sometimes longer than several renewals.
    let time = if random.below(20) == 0 { LEASE * 3 / 2 } else { Duration::from_millis(random.below(20)) };
    tokio::time::sleep(time).await;
    {
        let mut resource = resource.lock().unwrap();
        resource.write_fenced(token, fenced);
        if guard.is_held() {
            resource.bare.write(bare + 1);
        }
    }
    drop(inside);
    if random.below(4) == 0 {
        drop(guard);
    } else if let Err(error) = guard.release().await {
        world.note(&error);
    }
}

impl World {
    /// Counts an error. Faults are temporary, so it must be retryable or ambiguous.
    fn note(&self, error: &LockError) {
        assert!(error.is_retryable() || error.is_ambiguous(), "{error:#}: {error:?}");
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}

impl Resource {
    fn read(&mut self, token: u64) -> (u64, Option<u64>) {
        let fresh = self.fence <= token;
        self.fence = self.fence.max(token);
        (self.bare.value, fresh.then_some(self.fenced.value))
    }

    fn write_fenced(&mut self, token: u64, read: Option<u64>) {
        if let Some(value) = read.filter(|_| self.fence == token) {
            self.fenced.write(value + 1);
        }
    }
}

/// Returns the resident memory of this process, in MiB.
fn memory_mib() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let resident: u64 = pages.split(' ').nth(1).expect("the second number").parse().expect("a number");
    resident * 4 / 1024
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux has /proc").count()
}
