//! The keeper: the thread in which factories do the work that nobody awaits. Locks work from any executor and from none.

use crate::support::{HANGS, Kept, World, millis, secs, until};
use futures_util::FutureExt;
use lock_core::{
    Lock, LockErrorKind, LockFactory, LockGuard, LockOptions, LostReason, MemoryBackend, Store, Worker,
    election::{ElectionOptions, LeadEnd},
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::{Fault, FaultyBackend, Op, Phase};
use std::{
    env,
    fs::{read_dir, read_to_string},
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock},
    thread,
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// Renewed every second, even on a busy machine.
const LEASE: Duration = secs(3);

fn multi() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn locks() -> LockFactory {
    let options = LockOptions::new().lease(LEASE);
    LockFactory::builder(MemoryBackend::new()).options(options).build().unwrap()
}

/// A long lease, with an operation timeout of 1 s.
fn store_and_locks() -> (FaultyBackend, LockFactory) {
    let store = FaultyBackend::new(MemoryBackend::new());
    let options = LockOptions::new().lease(secs(600)).operation_timeout(secs(1));
    let locks = LockFactory::builder(store.clone()).options(options).build().unwrap();
    (store, locks)
}

/// Checks that the hold lasts for three leases, and releases it.
fn is_renewed(guard: LockGuard) {
    thread::sleep(3 * LEASE);
    assert!(guard.is_held(), "it was not renewed");
    assert!(guard.release().now_or_never().is_none_or(|answer| answer.unwrap().was_held()));
}

#[test]
fn locks_work_under_another_executor() {
    let locks = locks();
    let lock = locks.named("x").unwrap();
    smol::block_on(async {
        drop(lock.acquire().await.unwrap());
        let guard = lock.acquire().await.unwrap();
        let lost = smol::spawn(guard.lost());
        let error = lock.acquire_timeout(millis(20)).await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Timeout);
        smol::Timer::after(3 * LEASE).await;
        assert!(guard.is_held() && !lost.is_finished(), "it is renewed");
        assert!(locks.inspect("x").await.unwrap().stored.is_some());
        assert!(locks.health().await.is_healthy());
        assert!(locks.shutdown().await.is_clean());
        assert_eq!(lost.await, LostReason::ShutDown);
    });
}

/// A loss is noticed by the keeper if the executor has no timers of tokio.
#[test]
fn loss_is_noticed_under_another_executor() {
    let lock = locks().named("x").unwrap().with_fixed_lease(millis(200)).unwrap();
    smol::block_on(async {
        let guard = lock.acquire().await.unwrap();
        assert_eq!(guard.lost().await, LostReason::Expired);
    });
}

/// A candidate watches the leader, pauses after a failed term, and gives its body a grace period.
#[test]
fn election_works_under_another_executor() {
    let (store, mut terms) = (MemoryBackend::new(), 0);
    let held = LockFactory::new(store.clone()).named("x").unwrap().acquire_blocking().unwrap();
    let options = ElectionOptions::new().back_off(millis(50), secs(1)).grace(millis(50));
    let locks = LockFactory::new(store);
    let election = locks.election("x").unwrap().with_options(options).unwrap();
    let leads = election.lead(|_| {
        terms += 1;
        let fails = terms == 1;
        async move {
            match fails {
                true => Err("the first term fails"),
                false => std::future::pending().await,
            }
        }
    });
    let end = smol::block_on(async {
        let stop = async {
            smol::Timer::after(millis(200)).await;
            held.release().await.unwrap();
            smol::Timer::after(millis(500)).await;
        };
        leads.until(stop).await
    });
    assert_eq!(end.unwrap(), LeadEnd::Stopped);
    assert_eq!(terms, 2);
}

#[test]
fn plain_threads_need_no_runtime() {
    let lock = locks().named("x").unwrap();
    let guard = lock.acquire_blocking().unwrap();
    thread::sleep(3 * LEASE);
    assert!(guard.release_blocking().unwrap().was_held());
    drop(lock.acquire_blocking().unwrap());
    drop(lock.acquire_blocking().unwrap());
}

#[test]
fn hold_of_a_runtime_that_is_rarely_driven_is_renewed() {
    let lock = locks().named("x").unwrap();
    let runtime = current();
    let guard = runtime.block_on(lock.acquire()).unwrap();
    let lost = runtime.spawn(guard.lost());
    for _ in 0..3 {
        thread::sleep(LEASE);
        runtime.block_on(tokio::task::yield_now());
    }
    assert!(guard.is_held() && !lost.is_finished(), "it is renewed");
    // Released while nobody drives the runtime.
    drop(guard);
    assert!(multi().block_on(lock.acquire_timeout(HANGS)).is_ok());
}

#[test]
fn hold_outlives_the_runtime_in_which_it_was_acquired() {
    let locks = locks();
    let lock = locks.named("x").unwrap();
    let (first, second) = (multi(), multi());
    let guard = first.block_on(lock.acquire()).unwrap();
    let waits = second.spawn(lock.acquire());
    drop(first);
    is_renewed(guard);
    assert!(second.block_on(waits).unwrap().unwrap().is_held());
}

/// As in the tests of an application, each of which has its own runtime.
static SHARED: LazyLock<LockFactory> = LazyLock::new(locks);

macro_rules! tests_that_share_a_factory {
    ($($test:ident)+) => {$(
        #[tokio::test]
        async fn $test() {
            for _ in 0..50 {
                let guard = SHARED.named("x").unwrap().acquire_timeout(HANGS).await.unwrap();
                tokio::task::yield_now().await;
                drop(guard);
            }
        }
    )+};
}

tests_that_share_a_factory! { static_factory_1 static_factory_2 static_factory_3 static_factory_4 static_factory_5 }

/// A store's future belongs to the keeper: it does not end with the runtime of the caller that started it.
#[test]
fn request_outlives_the_runtime_of_its_caller() {
    let (store, locks) = store_and_locks();
    let (home, guest) = (multi(), multi());
    let gate = store.gate(Op::Acquire, Phase::Before);
    let first = guest.spawn(locks.named("x").unwrap().acquire());
    until("the attempt is under way", || gate.is_reached());
    // A second waiter of the same name, in the runtime that stays; it also owns the attempt in flight.
    let second = home.spawn(locks.named("x").unwrap().acquire());
    drop(guest);
    drop((first, gate));
    assert!(home.block_on(second).unwrap().unwrap().is_held());
}

#[test]
fn requests_of_a_runtime_that_is_not_driven_end() {
    let (store, locks) = store_and_locks();
    let (idle, busy) = (current(), multi());
    let lock = locks.named("x").unwrap();
    store.next(Op::Acquire, Fault::Hang);
    idle.block_on(async { assert!(Box::pin(lock.acquire()).now_or_never().is_none()) });
    let guard = busy.block_on(lock.acquire_timeout(HANGS)).unwrap();
    store.next(Op::Release, Fault::Hang);
    idle.block_on(async { assert!(Box::pin(guard.release()).now_or_never().is_none()) });
    assert!(
        busy.block_on(lock.acquire_timeout(HANGS)).is_ok(),
        "the lease of ten minutes had to end by itself"
    );
}

#[test]
fn subscription_that_hangs_ends_and_is_repeated() {
    let memory = MemoryBackend::new();
    let other = LockFactory::new(memory.clone());
    let store = FaultyBackend::new(memory);
    store.always(Op::Subscribe, Fault::Hang);
    let locks = LockFactory::new(store.clone());
    let (idle, driven) = (current(), multi());
    let holder = driven.block_on(other.named("x").unwrap().acquire()).unwrap();
    let mut first = Box::pin(locks.named("x").unwrap().acquire());
    idle.block_on(async { assert!(first.as_mut().now_or_never().is_none()) });
    assert_eq!(store.calls(Op::Subscribe), 1);
    let second = driven.spawn(locks.named("x").unwrap().acquire());
    until("asked again", || store.calls(Op::Subscribe) > 1);
    second.abort();
    drop((first, idle));
    driven.block_on(holder.release()).unwrap();
}

/// A store that panics in the keeper ends nothing else there.
#[test]
fn panic_of_a_store_ends_one_request() {
    let memory = MemoryBackend::new();
    let kept = Arc::new(Kept::new(&memory));
    let store = Store::new(kept.clone()).pushing(Arc::new(memory.clone()));
    let panicking = LockFactory::new(store).named("x").unwrap();
    let runtime = multi();
    let guard = runtime.block_on(locks().named("x").unwrap().acquire()).unwrap();
    let other = runtime.spawn(panicking.acquire());
    until("it is sent", || kept.len() > 0);
    kept.answer_all();
    let other = runtime.block_on(other).unwrap().unwrap();
    kept.panics(1);
    drop(other);
    until("the release is repeated", || kept.len() > 0);
    kept.answer_all();
    until("it is released", || memory.held().is_empty());
    is_renewed(guard);
}

/// Drops the last factory where nothing may block.
#[test]
fn last_factory_can_be_dropped_in_a_task() {
    in_own_process("keeper::last_factory_can_be_dropped_in_a_task", |_| {
        for runtime in [current(), multi()] {
            runtime.block_on(async {
                let guard = locks().named("x").unwrap().acquire().await.unwrap();
                assert_eq!(keepers().len(), 1);
                drop(guard);
            });
            until("its thread has ended", || keepers().is_empty());
        }
        // The next factory starts another.
        drop(locks().named("x").unwrap().acquire_blocking().unwrap());
    });
}

#[test]
fn factories_share_one_thread() {
    in_own_process("keeper::factories_share_one_thread", |_| {
        let factories = [(); 20].map(|()| locks());
        assert_eq!(keepers().len(), 0, "none is used yet");
        let guards = factories.each_ref().map(|locks| locks.named("x").unwrap().acquire_blocking().unwrap());
        assert_eq!(keepers().len(), 1);
        drop(guards);
    });
}

#[test]
fn thread_that_cannot_start_is_a_clear_error() {
    in_own_process("keeper::thread_that_cannot_start_is_a_clear_error", |mut parent| {
        let lock = locks().named("x").unwrap();
        // No address space is left for a stack.
        let status = read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.strip_suffix(" kB"));
        let bytes = size.unwrap().trim().parse::<u64>().unwrap() * 1_024;
        parent.asks_for(&["prlimit", &format!("--as={bytes}:{bytes}")]);
        let error = lock.acquire_blocking().unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::NoRuntime);
        assert!(error.to_string().contains("os error"), "{error}");
    });
}

/// A cycle neither waits nor is waited for: its deadlines are published, and the keeper sleeps until the earliest.
#[test]
fn uncontended_cycles_do_not_wake_the_keeper() {
    in_own_process("keeper::uncontended_cycles_do_not_wake_the_keeper", |_| {
        let lock = locks().named("x").unwrap();
        let cycle = |lock: &Lock| lock.acquire_blocking().unwrap().release_blocking().unwrap();
        let _ = cycle(&lock);
        let before = switches_of_the_keeper();
        for _ in 0..10_000 {
            let _ = cycle(&lock);
        }
        let switches = switches_of_the_keeper() - before;
        // It looks at the clock once a second, and then it may wait for a mutex, which takes longer on a busy machine.
        assert!(switches <= 100, "{switches} switches in 10,000 cycles");
    });
}

/// Without a word from the test, a factory on a clock of its own stays in the runtime whose time is paused.
#[tokio::test(start_paused = true)]
async fn factory_with_its_own_clock_works_in_the_runtime_in_use() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 1, "the keeper's task");
    tokio::time::sleep(secs(3_600)).await;
    assert!(guard.is_held(), "renewed in paused time");
    drop(guard);
    world.settle().await;
    assert_eq!(world.store.held(), []);
}

#[test]
fn factory_with_its_own_clock_moves_to_the_next_runtime() {
    let paused = || Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (first, second) = (paused(), paused());
    let world = first.block_on(async { World::new() });
    let lock = world.locks.named("x").unwrap();
    let error = lock.acquire_blocking().unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::NoRuntime, "outside of a runtime");
    drop(first.block_on(lock.acquire()).unwrap());
    drop(first);
    let guard = second.block_on(lock.acquire_timeout(secs(60))).unwrap();
    assert!(second.block_on(guard.release()).unwrap().was_held());
}

/// An observer is told by the keeper, without any mutex held.
#[test]
fn observer_can_use_locks_in_the_keeper() {
    struct Uses(Lock);
    impl std::fmt::Debug for Uses {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Uses")
        }
    }
    impl LockObserver for Uses {
        fn on_event(&self, event: &LockEvent<'_>) {
            if let LockEventKind::GuardReleased { .. } = &event.kind {
                drop(self.0.acquire().now_or_never());
            }
        }
    }
    let other = locks().named("other").unwrap();
    let store = MemoryBackend::new();
    let locks = LockFactory::builder(store.clone()).observer(Uses(other.clone())).build().unwrap();
    drop(multi().block_on(locks.named("x").unwrap().acquire()).unwrap());
    until("released by the keeper", || store.held().is_empty());
    assert!(multi().block_on(other.acquire_timeout(HANGS)).is_ok());
}

#[test]
fn factory_with_a_worker_does_not_use_the_keeper() {
    in_own_process("keeper::factory_with_a_worker_does_not_use_the_keeper", |_| {
        let worker = Worker::thread().unwrap();
        let locks = LockFactory::builder(MemoryBackend::new()).worker(worker).build().unwrap();
        let guard = locks.named("x").unwrap().acquire_blocking().unwrap();
        assert_eq!((keepers().len(), threads_named("lock-worker").len()), (0, 1));
        drop(guard);
    });
}

/// The process in which a test was started.
pub(crate) struct Parent(());

impl Parent {
    /// Has the parent run a command on this process, given by `--pid`.
    fn asks_for(&mut self, command: &[&str]) {
        println!("\nasks for {}", command.join(" "));
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

/// Runs the body of a test in a process of its own, whose threads are only those of the test.
pub(crate) fn in_own_process(test: &str, body: fn(Parent)) {
    const OWN: &str = "LOCK_CORE_TEST_ALONE";
    if env::var_os(OWN).is_some() {
        return body(Parent(()));
    }
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(OWN, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serve(&mut child);
    assert!(child.wait().unwrap().success(), "see above");
}

fn serve(child: &mut Child) {
    let (pid, mut stdin) = (child.id().to_string(), child.stdin.take().unwrap());
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        let Some(command) = line.strip_prefix("asks for ") else { continue };
        let mut words = command.split(' ');
        let mut command = Command::new(words.next().unwrap());
        assert!(command.args(words).args(["--pid", &pid]).status().unwrap().success());
        stdin.write_all(b"done\n").unwrap();
    }
}

/// Returns the folders of this process's threads with this name.
fn threads_named(name: &str) -> Vec<std::path::PathBuf> {
    let tasks = read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let is_named = |task: &std::path::PathBuf| {
        read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    tasks.filter(is_named).collect()
}

pub(crate) fn keepers() -> Vec<std::path::PathBuf> {
    threads_named("lock-keeper")
}

/// Returns how often the keeper has gone to sleep.
fn switches_of_the_keeper() -> u64 {
    let status = read_to_string(keepers()[0].join("status")).unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}
