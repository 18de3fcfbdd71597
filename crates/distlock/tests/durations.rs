//! Every public function that takes a duration, with zero and with the longest one. The result is an error or the
//! documented effect, never a panic, and never a call without an end.

#![cfg(all(
    feature = "cron",
    feature = "fred",
    feature = "idempotency",
    feature = "postgres",
    feature = "sqlite",
    feature = "testing"
))]
#![allow(clippy::unwrap_used)]

use distlock::{
    Limits, LockFactory, LockFactoryBuilder, LockOptions, MemoryBackend, Retention, Worker,
    backend::{AcquireMode, Capabilities, Directory, Place, ProcessId, Share},
    clock::{Clock, Moment, TestClock, UtcTime},
    cron::{JobBuilder, RunContext, Schedule, Scheduler, SchedulerBuilder},
    election::ElectionOptions,
    inspect::{ListLimits, ProcessCard},
    ledger::MemoryLedger,
    quorum::{Member, QuorumBackend},
    tower::{
        BufferRequestLayer, DetachedTasks, LockLayer, PermitLayer,
        idempotency::{IdempotencyLayer, MemoryIdempotencyStore},
    },
};
use http::{Request, Response};
use lock_testkit::{ClockShift, PostgresServer, RedisServer, TcpProxy, contender::Contender};
use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    pin::Pin,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::time::{sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

type Case = (&'static str, fn(Duration) -> Pin<Box<dyn Future<Output = ()>>>);

macro_rules! cases {
    ($list:ident: |$d:ident| $($name:literal => $call:block)+) => {
        /// The functions, by the last two parts of their paths.
        const $list: &[Case] = &[$(($name, |$d| Box::pin(async move { $call }))),+];
    };
}

// In virtual time.
cases! { VIRTUAL: |d|
    "Retention::unless" => { let _ = Retention::Backend.unless(Some(d)); }
    "Capabilities::with_max_lease" => { let _ = Capabilities::new("test").with_max_lease(d); }
    "Directory::write_card" => { MemoryBackend::new().write_card(ProcessId::random(), card().await, d).await.unwrap(); }
    "MemoryBackend::write_card" => { MemoryBackend::new().write_card(ProcessId::random(), card().await, d).await.unwrap(); }
    "Pool::acquire_timeout" => {
        let pool = memory().build().unwrap().semaphore("x", 2).unwrap();
        let _held = pool.acquire_many(2).await.unwrap();
        let _ = timeout(SECOND * 60, pool.acquire_timeout(d)).await;
    }
    "Pool::acquire_many_timeout" => {
        let pool = memory().build().unwrap().semaphore("x", 2).unwrap();
        let _held = pool.acquire().await.unwrap();
        let _ = timeout(SECOND * 60, pool.acquire_many_timeout(2, d)).await;
    }
    "Contender::ask" => {
        let (it, name) = contender();
        let name = distlock::__private::semaphore_name(&name).unwrap();
        let _ = it.ask(&name, d, Share { weight: 1, limit: 1 }, Some(Place { id: it.lease(), patience: d })).await;
    }
    "Moment::add" => { assert!(Moment::START + d >= Moment::START); }
    "Moment::sub" => { assert!(Moment::START - d <= Moment::START); }
    "UtcTime::add" => { assert!(UtcTime::now() + d >= UtcTime::from_micros(1)); }
    "UtcTime::sub" => { assert!(UtcTime::now() - d <= UtcTime::now()); }
    "TestClock::suspend" => { let clock = TestClock::new(); clock.suspend(d); let _ = (clock.now(), clock.wall()); }
    "ElectionOptions::back_off" => { elected(ElectionOptions::new().back_off(d, d)).await; }
    "ElectionOptions::grace" => { elected(ElectionOptions::new().grace(d)).await; }
    "ElectionOptions::lease" => { elected(ElectionOptions::new().lease(d)).await; }
    "ListLimits::max_time" => { let _ = memory().build().unwrap().list("", ListLimits::new().max_time(d)).await; }
    "QuorumBuilder::max_lease" => {
        let nodes = ["a", "b", "c"].map(|name| Member::new(name, MemoryBackend::new()));
        if let Ok(quorum) = QuorumBackend::builder(nodes).max_lease(d).build() {
            let locks = LockFactory::builder(quorum).clock(Arc::new(TestClock::new())).build();
            if let Ok(locks) = locks {
                let _ = locks.named("x").unwrap().try_acquire().await;
            }
        }
    }
    "Limits::max_lease" => { limited(Limits::new().max_lease(d)).await; }
    "Limits::max_wait" => { limited(Limits::new().max_wait(d)).await; }
    "LockSet::acquire_timeout" => {
        let locks = memory().build().unwrap();
        let _held = locks.named("a").unwrap().with_fixed_lease(SECOND).unwrap().acquire().await;
        let _ = locks.all(["a", "b"]).unwrap().acquire_timeout(d).await;
    }
    "Lock::acquire_timeout" => {
        let lock = memory().build().unwrap().named("x").unwrap();
        let _held = lock.with_fixed_lease(SECOND).unwrap().acquire().await;
        let _ = lock.acquire_timeout(d).await;
    }
    "Lock::with_fixed_lease" => {
        if let Ok(lock) = memory().build().unwrap().named("x").unwrap().with_fixed_lease(d) {
            let _ = lock.acquire().await.unwrap().release().await;
        }
    }
    "LockGuard::extend" => {
        let guard = memory().build().unwrap().named("x").unwrap().acquire().await.unwrap();
        let _ = guard.extend(d).await;
        guard.release().await.unwrap();
    }
    "LockFactory::shutdown_within" => {
        let locks = memory().build().unwrap();
        let _guard = locks.named("x").unwrap().acquire().await.unwrap();
        locks.shutdown_within(d).await;
    }
    "LockOptions::fixed_lease" => { used(LockOptions::new().fixed_lease(d)).await; }
    "LockOptions::hand_off" => { used(LockOptions::new().hand_off(9, d)).await; }
    "LockOptions::lease" => { used(LockOptions::new().lease(d)).await; }
    "LockOptions::margin" => { used(LockOptions::new().margin(d)).await; }
    "LockOptions::max_hold" => { used(LockOptions::new().max_hold(d)).await; }
    "LockOptions::min_hold" => { used(LockOptions::new().min_hold(d)).await; }
    "LockOptions::operation_timeout" => { used(LockOptions::new().operation_timeout(d)).await; }
    "LockOptions::outage_budget" => { used(LockOptions::new().outage_budget(d)).await; }
    "LockOptions::poll_interval" => { used(LockOptions::new().poll_interval(d)).await; }
    "LockOptions::renew_every" => { used(LockOptions::new().renew_every(d)).await; }
    "Schedule::every" => {
        if let Ok(schedule) = Schedule::every(d) {
            let _ = schedule.next_after(UtcTime::now());
        }
    }
    "JobBuilder::alert_after" => { ran(|cron| cron, |job| job.alert_after(d)).await; }
    "JobBuilder::cancel_grace" => { ran(|cron| cron, |job| job.cancel_grace(d)).await; }
    "JobBuilder::grace" => { ran(|cron| cron, |job| job.grace(d)).await; }
    "JobBuilder::timeout" => { ran(|cron| cron, |job| job.timeout(d)).await; }
    "SchedulerBuilder::leadership_lease" => { ran(|cron| cron.leadership_lease(d), |job| job).await; }
    "SchedulerBuilder::run_lease" => { ran(|cron| cron.run_lease(d), |job| job).await; }
    "SchedulerBuilder::shutdown_grace" => { ran(|cron| cron.shutdown_grace(d), |job| job).await; }
    "SchedulerBuilder::trigger_life" => { ran(|cron| cron.trigger_life(d), |job| job).await; }
    "Contender::acquire" => { let (it, name) = contender(); it.acquire(&name, d).await; }
    "Contender::acquire_reply" => { let (it, name) = contender(); it.acquire_reply(&name, d).await; }
    "Contender::keep" => { let (it, name) = contender(); it.take(&name, SECOND).await; it.keep(&name, 2, d).await; }
    "Contender::renew" => { let (it, name) = contender(); it.take(&name, SECOND).await; it.renew(&name, d).await; }
    "Contender::renewal" => { let (it, name) = contender(); let _ = it.renewal(&name, d); }
    "Contender::request" => {
        let (it, name) = contender();
        let request = it.request(&name, d, AcquireMode::New { reserve: 0, floor: None }).await;
        it.send(request).await;
    }
    "IdempotencyLayer::retention" => { recorded(|layer| layer.retention(d)).await; }
    "IdempotencyLayer::store_timeout" => { recorded(|layer| layer.store_timeout(d)).await; }
    "BufferRequestLayer::timeout" => {
        let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
        let layer = BufferRequestLayer::new().timeout(d);
        let _ = layer.layer(service).oneshot(Request::new(String::from("a"))).await.unwrap();
    }
    "DetachedTasks::drain" => { let _ = DetachedTasks::new().drain(d).await; }
    "DetachedTasks::max_orphan_time" => {
        let tasks = DetachedTasks::new().max_orphan_time(d);
        layered(|layer| layer.detach(&tasks)).await;
    }
    "LockLayer::max_hold" => { layered(|layer| layer.max_hold(d)).await; }
    "LockLayer::try_wait" => { layered(|layer| layer.clone().try_wait(d).unwrap_or(layer)).await; }
    "LockLayer::wait" => { layered(|layer| layer.wait(d)).await; }
    // It passes them on.
    "PermitLayer::max_hold" => { let _ = permits().max_hold(d); }
    "PermitLayer::try_wait" => { let _ = permits().try_wait(d); }
    "PermitLayer::wait" => { let _ = permits().wait(d); }
}

// In real time, with threads or servers.
cases! { REAL: |d|
    "Pool::acquire_timeout_blocking" => {
        let acquired = thread::spawn(move || {
            let builder = LockFactory::builder(MemoryBackend::new()).worker(Worker::thread().unwrap());
            let pool = builder.build().unwrap().semaphore("x", 2).unwrap();
            pool.acquire_timeout_blocking(d).map(drop)
        });
        let _ = acquired.join().expect("no panic");
    }
    "ClockShift::suspended" => { ClockShift::new().suspended(d); }
    "Lock::acquire_timeout_blocking" => {
        let acquired = thread::spawn(move || {
            let builder = LockFactory::builder(MemoryBackend::new()).worker(Worker::thread().unwrap());
            let lock = builder.build().unwrap().named("x").unwrap();
            lock.acquire_timeout_blocking(d).map(drop)
        });
        let _ = acquired.join().expect("no panic");
    }
    "RedisBackend::write_card" => {
        let server = RedisServer::start();
        let redis = distlock::fred::RedisBackend::connect(&server.url()).await.unwrap();
        let _ = redis.write_card(ProcessId::random(), card().await, d).await;
    }
    "PostgresBackend::write_card" => {
        let server = PostgresServer::with_settings(&["fsync=on"]);
        let url = format!("{}?migrate=true", server.url());
        let postgres = distlock::sql::PostgresBackend::connect(&url).await.unwrap();
        postgres.write_card(ProcessId::random(), card().await, d).await.unwrap();
    }
    "SqliteBackend::write_card" => {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        let sqlite = distlock::sql::SqliteBackend::connect(&url).await.unwrap();
        let _ = sqlite.write_card(ProcessId::random(), card().await, d).await;
    }
    "RedisBackendBuilder::connect_timeout" => {
        let server = RedisServer::start();
        for url in [server.url(), "redis://127.0.0.1:1".to_owned()] {
            let builder = distlock::fred::RedisBackendBuilder::from_url(&url).unwrap();
            let _ = builder.connect_timeout(d).connect().await;
        }
    }
    "RedisBackendBuilder::retention" => {
        let server = RedisServer::start();
        let builder = distlock::fred::RedisBackendBuilder::from_url(&server.url()).unwrap();
        if let Ok(redis) = builder.retention(Some(d)).connect().await {
            let lock = LockFactory::new(redis).named("x").unwrap();
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    }
    "TcpProxy::delay" => {
        let server = RedisServer::start();
        let proxy = TcpProxy::start(server.address());
        proxy.delay(d);
        let _ = timeout(SECOND / 10, tokio::net::TcpStream::connect(proxy.address())).await;
    }
}

/// Functions that panic as documented, since their arguments are usually constants.
const PANICS: [&str; 4] =
    ["LockLayer::wait", "LockLayer::max_hold", "PermitLayer::wait", "PermitLayer::max_hold"];

/// Functions that are not called here, and why.
const NOT_CALLED: [(&str, &str); 8] = [
    ("Harness::pass", "waits for that time"),
    ("LedgerHarness::pass", "waits for that time"),
    ("ServersUrl::take_session", "returns the default as it is"),
    ("SessionLocks::write_card", "ignores it: cards end with the session"),
    ("Contender::must_last", "an assertion"),
    ("Contender::take", "asserts a grant"),
    ("Contender::take_with", "asserts a grant"),
    ("lock_testkit::outlives_a_blocked_thread", "blocks a thread for a multiple of that time"),
];

fn permits() -> PermitLayer {
    PermitLayer::new(memory().build().unwrap(), 2)
}

fn memory() -> LockFactoryBuilder {
    let store = MemoryBackend::with_clock(Arc::new(TestClock::new()));
    LockFactory::builder(store).clock(Arc::new(TestClock::new()))
}

/// Returns the card of this process.
async fn card() -> ProcessCard {
    let locks = LockFactory::new(MemoryBackend::new());
    let _guard = locks.named("x").unwrap().acquire().await.unwrap();
    loop {
        if let Some(card) = locks.inspect("x").await.unwrap().process {
            return card;
        }
        sleep(SECOND / 10).await;
    }
}

fn contender() -> (Contender, distlock::LockName) {
    let store = distlock::Store::from(MemoryBackend::with_clock(Arc::new(TestClock::new())));
    (Contender::new(&store.backend), distlock::LockName::new("x").unwrap())
}

/// Acquires a lock for a second with these options, if they are accepted.
async fn used(options: LockOptions) {
    let Ok(locks) = memory().options(options).build() else { return };
    let lock = locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiter = tokio::spawn(lock.acquire_timeout(SECOND * 60));
    sleep(SECOND).await;
    let _ = guard.release().await;
    let _ = waiter.await.unwrap();
    locks.shutdown().await;
}

/// Acquires a lock under these limits, if they are accepted.
async fn limited(limits: Limits) {
    if let Ok(locks) = memory().limits(limits).build() {
        let _ = locks.named("x").unwrap().acquire_timeout(SECOND).await;
    }
}

/// Leads for a moment with these options, if they are accepted.
async fn elected(options: ElectionOptions) {
    let locks = memory().build().unwrap();
    if let Ok(election) = locks.election("leader").unwrap().with_options(options) {
        let _ = election.lead(async |_| Err::<(), _>("the body failed")).until(sleep(SECOND * 5)).await;
    }
}

/// Runs a job each second, for some seconds, if the settings are accepted.
async fn ran(
    scheduler: impl FnOnce(SchedulerBuilder) -> SchedulerBuilder,
    job: impl FnOnce(JobBuilder) -> JobBuilder,
) {
    let ledger = MemoryLedger::with_clock(Arc::new(TestClock::new()));
    let builder = Scheduler::builder(memory().build().unwrap(), ledger);
    let Ok(cron) = scheduler(builder).build() else { return };
    let every_second = Schedule::every(SECOND).unwrap();
    let added = job(cron.job("job", every_second, async |_: RunContext| Ok(()))).register();
    if added.is_ok() {
        cron.run_until(sleep(SECOND * 3)).await.unwrap();
    }
}

/// Sends a request through an idempotency layer.
async fn recorded(change: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) {
    let lock = LockLayer::new(memory().build().unwrap()).detach(&DetachedTasks::new());
    let layer = change(IdempotencyLayer::unscoped(lock, MemoryIdempotencyStore::new()));
    let request = Request::post("/").header("idempotency-key", "\"1\"").body(String::from("a")).unwrap();
    let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
    let _ = layer.layer(service).oneshot(request).await.unwrap();
}

/// Configures a layer.
async fn layered<K, D>(layer: impl FnOnce(LockLayer) -> LockLayer<K, D>) {
    drop(layer(LockLayer::new(memory().build().unwrap())));
}

/// Calls every function of a list, in a runtime of its own. Returns the names of those that panicked or did not end.
fn failures(list: &[Case], paused: bool) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, call) in list {
        for d in [Duration::ZERO, Duration::MAX] {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(paused).build().unwrap();
            let limit = if paused { SECOND * 86_400 } else { SECOND * 60 };
            let ended = || runtime.block_on(async { timeout(limit, call(d)).await.is_ok() });
            match catch_unwind(AssertUnwindSafe(ended)) {
                Ok(true) => {}
                Ok(false) => failures.push(format!("{name}({d:?}) does not end")),
                Err(_) if PANICS.contains(name) => {}
                Err(_) => failures.push(format!("{name}({d:?}) panics")),
            }
        }
    }
    failures
}

#[test]
fn longest_and_shortest_durations_never_panic() {
    assert_eq!(failures(VIRTUAL, true), Vec::<String>::new());
}

#[test]
fn longest_and_shortest_durations_never_panic_in_real_time() {
    assert_eq!(failures(REAL, false), Vec::<String>::new());
}

/// Returns the last two parts of the path of a function that takes a duration.
fn taker(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("fn ")?;
    // Generics of the path are left out.
    let (mut path, mut depth) = (String::new(), 0);
    let mut chars = rest.chars();
    for c in chars.by_ref() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => break,
            c if depth == 0 => path.push(c),
            _ => {}
        }
    }
    let mut depth = 1;
    let ends = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    };
    let arguments = chars.as_str().split(ends).next()?;
    let mut parts = path.rsplit("::");
    let (last, before) = (parts.next()?, parts.next()?);
    arguments.contains("core::time::Duration").then(|| format!("{before}::{last}"))
}

#[test]
fn every_function_that_takes_a_duration_is_in_a_table() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut takers = BTreeSet::new();
    for folder in std::fs::read_dir(crates).unwrap() {
        let Ok(api) = std::fs::read_to_string(folder.unwrap().path().join("api.txt")) else { continue };
        // The planted stores are for this workspace's checkers.
        takers.extend(api.lines().filter(|line| !line.contains("::planted::")).filter_map(taker));
    }
    assert!(takers.len() > 50, "{takers:?}");
    let mut called: BTreeSet<_> = VIRTUAL.iter().chain(REAL).map(|(name, _)| (*name).to_owned()).collect();
    called.extend(NOT_CALLED.map(|(name, _)| name.to_owned()));
    assert_eq!(takers.difference(&called).collect::<Vec<_>>(), Vec::<&String>::new(), "add them to a table");
    assert_eq!(called.difference(&takers).collect::<Vec<_>>(), Vec::<&String>::new(), "they are gone");
}
