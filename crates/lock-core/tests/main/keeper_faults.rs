//! Foreign code that could end the keeper, work that could starve in it, and work that could be lost with it.

use crate::{
    keeper::{in_own_process, keepers},
    support::{HANGS, millis, secs, until},
};
use async_trait::async_trait;
use futures_util::FutureExt;
use lock_core::{
    LockFactory, LockGuard, LockName, LockOptions, LostReason, MemoryBackend, Store, Worker,
    backend::{
        Backend, BackendError, Capabilities, Directory, ForceReleaseRequest, ForceReleased, Inspected,
        ProcessId, Reply, Submission,
    },
    clock::{BootClock, UtcTime},
    inspect::{ListLimits, Listing, ProcessCard},
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::{Fault, FaultyBackend, Op};
use std::{
    cell::RefCell,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};

/// Renewed every second.
const LEASE: Duration = secs(3);

fn multi() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn locks() -> LockFactory {
    with_lease(LEASE)
}

fn with_lease(lease: Duration) -> LockFactory {
    let options = LockOptions::new().lease(lease);
    LockFactory::builder(MemoryBackend::new()).options(options).build().unwrap()
}

fn is_renewed(guard: &LockGuard) {
    thread::sleep(3 * LEASE);
    assert!(guard.is_held(), "it was not renewed");
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as planned");
    }
}

fn panics() -> Waker {
    Waker::from(Arc::new(Panics))
}

/// Under another executor, a call waits with a timer of the keeper, which wakes the executor's task itself.
#[test]
fn panicking_waker_of_a_call_does_not_end_the_keeper() {
    in_own_process("keeper_faults::panicking_waker_of_a_call_does_not_end_the_keeper", |_| {
        let held = locks().named("x").unwrap().acquire_blocking().unwrap();
        let store = FaultyBackend::new(MemoryBackend::new());
        let other = LockFactory::new(store.clone());
        let _stuck = other.named("y").unwrap().acquire_blocking().unwrap();
        store.always(Op::Release, Fault::Hang);
        let mut shutdown = Box::pin(other.shutdown_within(millis(500)));
        assert!(shutdown.as_mut().poll(&mut Context::from_waker(&panics())).is_pending());
        is_renewed(&held);
    });
}

/// A layer of `tracing` that panics at the line that sums up warnings.
struct PanicsAtSums;

struct IsSum(bool);

impl tracing::field::Visit for IsSum {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}").starts_with("further");
    }
}

impl tracing::Subscriber for PanicsAtSums {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event()
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut sum = IsSum(false);
        event.record(&mut sum);
        assert!(!sum.0, "as planned");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn panic_of_a_log_line_does_not_end_the_watchdog() {
    in_own_process("keeper_faults::panic_of_a_log_line_does_not_end_the_watchdog", |_| {
        tracing::subscriber::set_global_default(PanicsAtSums).unwrap();
        let locks = locks();
        let held = locks.named("x").unwrap().acquire_blocking().unwrap();
        // More losses than are logged in full.
        let lost: Vec<_> = (0..10)
            .map(|number| {
                let lock = locks.named(format!("y:{number}")).unwrap();
                lock.with_fixed_lease(millis(200)).unwrap().acquire_blocking().unwrap()
            })
            .collect();
        thread::sleep(secs(11));
        assert!(lost.iter().all(|guard| !guard.is_held()));
        is_renewed(&held);
    });
}

/// A guard of a thread that ends is dropped after tokio's state of that thread.
#[test]
fn guard_dropped_by_an_ending_thread_does_not_panic() {
    thread_local! {
        static KEPT: RefCell<Option<LockGuard>> = const { RefCell::new(None) };
    }
    in_own_process("keeper_faults::guard_dropped_by_an_ending_thread_does_not_panic", |_| {
        let ended = multi();
        let worker = Worker::on(ended.handle().clone());
        let locks = LockFactory::builder(MemoryBackend::new()).worker(worker).build().unwrap();
        let lock = locks.named("x").unwrap();
        let uses = move || {
            KEPT.with(|_| ());
            let guard = lock.acquire_blocking().unwrap();
            KEPT.set(Some(guard));
            drop(ended);
        };
        assert!(thread::spawn(uses).join().is_ok());
    });
}

/// A directory whose removals take a while.
#[derive(Debug)]
struct SlowDirectory(MemoryBackend);

#[async_trait]
impl Directory for SlowDirectory {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        self.0.write_card(process, card, ttl).await
    }
    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        tokio::time::sleep(millis(20)).await;
        self.0.remove_card(process).await
    }
    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        self.0.read_card(process).await
    }
    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        self.0.list(prefix, limits).await
    }
}

fn has_card(memory: &MemoryBackend, process: ProcessId) -> bool {
    memory.read_card(process).now_or_never().unwrap().unwrap().is_some()
}

/// The future of a shutdown is dropped: it continues in the background.
#[test]
fn card_is_removed_by_a_shutdown_in_the_background() {
    in_own_process("keeper_faults::card_is_removed_by_a_shutdown_in_the_background", |_| {
        let memory = MemoryBackend::new();
        let store = Store::from(memory.clone()).with_directory(Arc::new(SlowDirectory(memory.clone())));
        let locks = LockFactory::new(store);
        drop(locks.named("x").unwrap().acquire_blocking().unwrap());
        until("the card is written", || has_card(&memory, locks.process_id()));
        assert!(locks.shutdown().now_or_never().is_none());
        // Otherwise it stays for a minute.
        let begin = Instant::now();
        while has_card(&memory, locks.process_id()) {
            assert!(begin.elapsed() < secs(45), "it is not removed");
            thread::sleep(millis(1));
        }
    });
}

/// Blocks its thread at the end of each of two holds.
#[derive(Debug)]
struct Blocks(AtomicBool);

impl LockObserver for Blocks {
    fn on_event(&self, event: &LockEvent<'_>) {
        let LockEventKind::Ended { .. } = event.kind else { return };
        match event.name.as_str() {
            // Until a renewal is due.
            "short" => thread::sleep(millis(1_500)),
            "long" => {
                self.0.store(true, SeqCst);
                thread::sleep(secs(12));
            }
            _ => {}
        }
    }
}

/// A factory with a worker, because its observer may block, shares its store with one in the keeper.
#[test]
fn blocked_worker_does_not_delay_renewals_of_the_keeper() {
    let store = Store::from(FaultyBackend::new(MemoryBackend::new()));
    let options = LockOptions::new().lease(LEASE).operation_timeout(millis(300));
    let builder = || LockFactory::builder(store.clone()).options(options);
    let blocked =
        builder().worker(Worker::thread().unwrap()).observer(Blocks(AtomicBool::new(false))).build();
    let (blocked, locks) = (blocked.unwrap(), builder().build().unwrap());
    let take = |locks: &LockFactory, name: &str| locks.named(name).unwrap().acquire_blocking().unwrap();
    let (_renewed, short) = (take(&blocked, "renewed"), take(&blocked, "short"));
    let long =
        blocked.named("long").unwrap().with_options(LockOptions::new()).unwrap().acquire_blocking().unwrap();
    drop(short);
    thread::sleep(millis(300));
    // Handled in the turn that sends the renewal.
    drop(long);
    let held = take(&locks, "held");
    is_renewed(&held);
}

/// Long enough for a busy machine: a starved hold is lost however long its lease is.
const BUSY_LEASE: Duration = secs(7);

/// Drops guards of this factory in two threads, and returns the time after which a hold was lost meanwhile.
fn lost_while_busy(busy: &LockFactory, held: &LockGuard) -> Option<Duration> {
    let (stop, dropped) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|threads| {
        for thread in 0..2 {
            let (stop, dropped) = (&stop, &dropped);
            threads.spawn(move || {
                let mut number = 0;
                while !stop.load(SeqCst) {
                    number += 1;
                    let lock = busy.named(format!("order:{thread}:{number}")).unwrap();
                    drop(lock.with_options(LockOptions::new()).unwrap().acquire_blocking().unwrap());
                    dropped.fetch_add(1, SeqCst);
                }
            });
        }
        let begin = Instant::now();
        let mut lost = None;
        while begin.elapsed() < 2 * BUSY_LEASE && lost.is_none() {
            thread::sleep(millis(100));
            lost = (!held.is_held()).then(|| begin.elapsed());
        }
        stop.store(true, SeqCst);
        eprintln!("{} guards dropped, {} names in use", dropped.load(SeqCst), busy.active_locks());
        lost
    })
}

/// Other factories of the process keep the keeper busy.
#[test]
fn busy_factory_does_not_starve_another() {
    in_own_process("keeper_faults::busy_factory_does_not_starve_another", |_| {
        let held = with_lease(BUSY_LEASE).named("x").unwrap().acquire_blocking().unwrap();
        assert_eq!(
            lost_while_busy(&LockFactory::new(MemoryBackend::new()), &held),
            None,
            "lost after this time"
        );
    });
}

/// A card is written half a second after the first acquire, also if the keeper is busy.
#[test]
fn busy_factory_has_a_card() {
    in_own_process("keeper_faults::busy_factory_has_a_card", |_| {
        let memory = MemoryBackend::new();
        let (locks, stop) = (LockFactory::new(memory.clone()), AtomicBool::new(false));
        thread::scope(|threads| {
            for thread in 0..2 {
                let (locks, stop) = (&locks, &stop);
                threads.spawn(move || {
                    let lock = locks.named(format!("order:{thread}")).unwrap();
                    while !stop.load(SeqCst) {
                        drop(lock.acquire_blocking().unwrap());
                    }
                });
            }
            let begin = Instant::now();
            while !has_card(&memory, locks.process_id()) && begin.elapsed() < HANGS {
                thread::sleep(millis(10));
            }
            stop.store(true, SeqCst);
            assert!(has_card(&memory, locks.process_id()), "it is not written");
        });
    });
}

/// A store that does not answer the first acquire of "y", and waits in its own way until that is unwanted.
#[derive(Debug)]
struct Waits {
    memory: MemoryBackend,
    asked: AtomicUsize,
    waits: Mutex<Vec<Opaque>>,
}

struct Opaque(#[allow(dead_code)] Pin<Box<dyn Future<Output = ()> + Send>>);

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opaque")
    }
}

#[async_trait]
impl Backend for Waits {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }
    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.memory.server_now(name)
    }
    fn submit(&self, submission: Submission) {
        if submission.operation().name().as_str() != "y" || self.asked.fetch_add(1, SeqCst) > 0 {
            return self.memory.submit(submission);
        }
        let mut waits: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(async move { submission.unwanted().await });
        assert!(waits.as_mut().poll(&mut Context::from_waker(&panics())).is_pending());
        self.waits.lock().unwrap().push(Opaque(waits));
    }
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.memory.inspect(name).await
    }
    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        self.memory.force_release(r).await
    }
}

/// The operation times out. Its event must come, or its name is dead for this process.
#[test]
fn panicking_waker_of_a_store_does_not_lose_the_event_of_an_operation() {
    let (memory, waits) = (MemoryBackend::new(), Mutex::default());
    let store = Store::new(Arc::new(Waits { memory, asked: AtomicUsize::new(0), waits }));
    let options = LockOptions::new().operation_timeout(millis(500));
    let locks = LockFactory::builder(store).options(options).build().unwrap();
    let acquired = locks.named("y").unwrap().acquire_timeout_blocking(secs(20));
    assert!(acquired.is_ok(), "{acquired:?}");
}

/// A factory with its own clock works in the next runtime in use after one has ended: here, work waits under a lock in it.
#[test]
fn hold_that_is_watched_elsewhere_survives_the_end_of_its_runtime() {
    let options = LockOptions::new().lease(LEASE);
    let builder =
        LockFactory::builder(MemoryBackend::new()).clock(Arc::new(BootClock::new())).options(options);
    let locks = builder.build().unwrap();
    let (first, second) = (multi(), multi());
    drop(first.block_on(locks.named("y").unwrap().acquire()).unwrap());
    let guard = second.block_on(locks.named("x").unwrap().acquire()).unwrap();
    let lost = second.spawn(guard.lost());
    drop(first);
    is_renewed(&guard);
    assert!(!lost.is_finished());
}

/// `Handle::block_on` polls in a runtime that has ended.
#[test]
fn loss_is_noticed_in_a_stopped_runtime() {
    let lock = locks().named("x").unwrap().with_fixed_lease(millis(300)).unwrap();
    let guard = lock.acquire_blocking().unwrap();
    let ended = multi();
    let handle = ended.handle().clone();
    drop(ended);
    assert_eq!(handle.block_on(guard.lost()), LostReason::Expired);
}

#[test]
fn shutdown_in_a_stopped_runtime_is_bounded() {
    let store = FaultyBackend::new(MemoryBackend::new());
    let locks = LockFactory::new(store.clone());
    let _guard = locks.named("x").unwrap().acquire_blocking().unwrap();
    store.always(Op::Release, Fault::Hang);
    let ended = multi();
    let handle = ended.handle().clone();
    drop(ended);
    assert!(!handle.block_on(locks.shutdown_within(millis(100))).is_clean());
}

/// A file descriptor of each kind is left otherwise, for as long as no other keeper is started.
#[test]
fn nothing_is_left_of_an_ended_keeper() {
    in_own_process("keeper_faults::nothing_is_left_of_an_ended_keeper", |_| {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        // Opens what tokio keeps for signals.
        drop(multi());
        let before = open();
        drop(locks().named("x").unwrap().acquire_blocking().unwrap());
        until("its thread has ended", || keepers().is_empty());
        thread::sleep(millis(50));
        assert_eq!(open(), before);
    });
}

/// Threads that fork while another one starts the keeper.
#[test]
fn child_that_is_forked_while_a_keeper_starts_can_start_its_own() {
    in_own_process("keeper_faults::child_that_is_forked_while_a_keeper_starts_can_start_its_own", |_| {
        let stop = AtomicBool::new(false);
        let hung = thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(SeqCst) {
                    drop(locks().named("x").unwrap().acquire_blocking().unwrap());
                    until("its thread has ended", || keepers().is_empty());
                }
            });
            let mut hung = 0;
            for round in 0..40 {
                thread::sleep(Duration::from_micros(1_000 + 137 * round));
                match fork::fork().unwrap() {
                    fork::Fork::Child => {
                        let acquired = locks().named("x").unwrap().acquire_blocking();
                        std::process::exit(i32::from(acquired.is_err()));
                    }
                    fork::Fork::Parent(child) => {
                        let stat = format!("/proc/{child}/stat");
                        let begin = Instant::now();
                        let has_ended =
                            || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "));
                        while !has_ended() && begin.elapsed() < secs(5) {
                            thread::sleep(millis(5));
                        }
                        if !has_ended() {
                            hung += 1;
                            let _ =
                                std::process::Command::new("kill").args(["-9", &child.to_string()]).status();
                        }
                        let _ = fork::waitpid(child);
                    }
                }
                if hung > 2 {
                    break;
                }
            }
            stop.store(true, SeqCst);
            hung
        });
        assert_eq!(hung, 0, "children that could not acquire");
    });
}

/// A view of a hold that is kept for longer than everything else, for example in a log record.
#[test]
fn view_of_a_hold_does_not_keep_the_connections_of_the_store() {
    let memory = MemoryBackend::new();
    let directory = Arc::new(SlowDirectory(memory.clone()));
    let connection = Arc::downgrade(&directory);
    let locks = LockFactory::new(Store::from(memory).with_directory(directory));
    let guard = locks.named("x").unwrap().acquire_blocking().unwrap();
    let hold = guard.hold();
    guard.release_blocking().unwrap();
    drop(locks);
    let begin = Instant::now();
    while connection.strong_count() > 0 && begin.elapsed() < secs(15) {
        thread::sleep(millis(10));
    }
    assert!(!hold.is_held());
    assert_eq!(connection.strong_count(), 0, "the view keeps it");
}

/// A store whose estimate of the server's clock panics in the keeper, once, for one lock.
#[derive(Debug)]
struct PanicsOnce(MemoryBackend, AtomicBool);

#[async_trait]
impl Backend for PanicsOnce {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        let in_keeper = thread::current().name() == Some("lock-keeper");
        assert!(!in_keeper || name.as_str() != "y" || self.1.swap(true, SeqCst), "as planned");
        self.0.server_now(name)
    }
    fn submit(&self, submission: Submission) {
        self.0.submit(submission);
    }
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.0.inspect(name).await
    }
    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        self.0.force_release(r).await
    }
}

#[test]
fn panic_over_one_lock_does_not_end_the_renewal_of_others() {
    let store = Store::new(Arc::new(PanicsOnce(MemoryBackend::new(), AtomicBool::new(false))));
    let locks = LockFactory::builder(store).options(LockOptions::new().lease(LEASE)).build().unwrap();
    let runtime = multi();
    let held = locks.named("x").unwrap().acquire_blocking().unwrap();
    let lost = runtime.spawn(held.lost());
    thread::sleep(millis(100));
    let _y = locks.named("y").unwrap().acquire_blocking().unwrap();
    is_renewed(&held);
    assert!(!lost.is_finished());
}
