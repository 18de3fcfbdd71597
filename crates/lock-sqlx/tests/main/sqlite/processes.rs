//! Several processes on one file: this program runs its tests again as their children.

use crate::sqlite::support::LockFile;
use lock_core::{
    FencingToken, Lock, LockFactory, LockName, LockOptions, LostReason,
    backend::{MissedWakes, Subscriptions as _, WakeListener},
};
use lock_sqlx::SqliteBackend;
use lock_testkit::ClockShift;
use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// The URL of the file, in the environment of a child.
const URL: &str = "LOCK_SQLX_TEST_URL";

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `body` if this process is a child.
async fn as_child<F: Future<Output = ()>>(body: impl FnOnce(Lock) -> F) -> bool {
    let Some(url) = env::var(URL).ok() else { return false };
    let locks = LockFactory::new(SqliteBackend::connect(&url).await.unwrap());
    body(locks.named("shared").unwrap()).await;
    locks.shutdown().await;
    true
}

/// A child that runs the same test.
struct Other {
    child: Child,
    orders: ChildStdin,
    says: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Other {
    fn of(test: &str, file: &LockFile) -> Self {
        Self::with_clock(test, file, &ClockShift::new())
    }

    fn with_clock(test: &str, file: &LockFile, clock: &ClockShift) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(URL, file.url());
        clock.give_to(&mut command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = child.stdin.take().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, orders, says }
    }

    /// Waits until the child has the lock, and returns its token.
    fn token(&mut self) -> FencingToken {
        let token = self.says.find_map(|line| line.unwrap().strip_prefix("token ")?.parse().ok());
        FencingToken::new(token.expect("the child has the lock"))
    }

    /// Waits until the child prints this line.
    fn hears(&mut self, line: &str) {
        self.says.find(|said| said.as_ref().unwrap() == line).expect("the child says it").unwrap();
    }

    fn go_on(&mut self) {
        self.orders.write_all(b"go on\n").unwrap();
    }

    fn end(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reports the token of a hold, and waits for an order.
async fn report(token: FencingToken) {
    println!("\ntoken {token}");
    tokio::task::spawn_blocking(|| std::io::stdin().lines().next()).await.unwrap();
}

#[tokio::test]
async fn release_wakes_a_waiter_of_another_process() {
    let hold = |lock: Lock| async move {
        let guard = lock.acquire().await.unwrap();
        report(guard.fencing_token()).await;
        assert!(guard.release().await.unwrap().was_held());
    };
    if as_child(hold).await {
        return;
    }
    let file = LockFile::new();
    let mut other = Other::of("sqlite::processes::release_wakes_a_waiter_of_another_process", &file);
    let token = other.token();
    let locks = file.locks().await;
    let lock = locks.named("shared").unwrap();
    let waiting = tokio::spawn(async move { lock.acquire_timeout(PATIENCE).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "the other process has the lock");
    other.go_on();
    // Without a wake-up, it would wait until the lease of 30 s ends.
    assert!(waiting.await.unwrap().unwrap().fencing_token() > token);
    other.end();
}

#[tokio::test]
async fn lock_of_a_killed_process_is_free_when_its_lease_ends() {
    let hold = |lock: Lock| async move {
        let lock = lock.with_options(LockOptions::default().lease(Duration::from_secs(2))).unwrap();
        let guard = lock.acquire().await.unwrap();
        report(guard.fencing_token()).await;
    };
    if as_child(hold).await {
        return;
    }
    let file = LockFile::new();
    let mut other =
        Other::of("sqlite::processes::lock_of_a_killed_process_is_free_when_its_lease_ends", &file);
    let token = other.token();
    let locks = file.locks().await;
    let lock = locks.named("shared").unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    other.child.kill().unwrap();
    let guard = lock.acquire_timeout(PATIENCE).await.unwrap();
    assert!(guard.fencing_token() > token);
}

/// Somebody deletes the log, and another process begins a new one.
#[tokio::test]
async fn deleted_log_ends_the_holds() {
    let hold = |lock: Lock| async move {
        let guard = lock.acquire().await.unwrap();
        report(guard.fencing_token()).await;
    };
    if as_child(hold).await {
        return;
    }
    let file = LockFile::new();
    let locks = file.locks().await;
    let guard = locks.named("shared").unwrap().acquire().await.unwrap();
    for ending in ["-wal", "-shm"] {
        fs::remove_file(format!("{}{ending}", file.path().display())).unwrap();
    }
    let mut other = Other::of("sqlite::processes::deleted_log_ends_the_holds", &file);
    assert!(other.token() > guard.fencing_token());
    // Any request notices it.
    drop(locks.named("y").unwrap().acquire().await.unwrap());
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    assert_eq!(lost.expect("it notices"), LostReason::Gone);
    assert!(locks.named("shared").unwrap().try_acquire().await.unwrap().is_none());
}

/// A forked child has SQLite's memory of the locks of its files, but not the locks.
#[test]
fn forked_child_is_refused() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // In a process without other tests.
    let Ok(url) = env::var(URL) else {
        return Other::of("sqlite::processes::forked_child_is_refused", &LockFile::new()).end();
    };
    let _store = runtime().block_on(SqliteBackend::connect(&url)).unwrap();
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            let error = runtime().block_on(SqliteBackend::connect(&url)).err();
            let text = error.as_ref().and_then(std::error::Error::source).map(ToString::to_string);
            let is_refused = text.is_some_and(|text| text.contains("start another program"));
            std::process::exit(if is_refused { 0 } else { 1 });
        }
        fork::Fork::Parent(child) => assert_eq!(fork::waitpid(child).unwrap(), 0),
    }
}

#[derive(Debug, Default)]
struct Heard(Notify);

impl WakeListener for Heard {
    fn released(&self, _: &LockName) {
        self.0.notify_one();
    }
    fn wake_all(&self, _: MissedWakes) {}
    fn server_restarted(&self) {}
}

/// The second subscriber of a client reads the state of the lock before the first one has heard of a release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_subscription_loses_no_wake_up() {
    let file = LockFile::new();
    let (client, others) = (file.client().await, file.locks().await);
    let (first, second) = (Arc::new(Heard::default()), Arc::new(Heard::default()));
    let listener = |heard: &Arc<Heard>| Arc::downgrade(&(heard.clone() as Arc<dyn WakeListener>));
    let one = client.register_listener(listener(&first));
    let two = client.register_listener(listener(&second));
    for round in 0..20 {
        let name = LockName::new(format!("x:{round}")).unwrap();
        let guard = others.named(name.as_str()).unwrap().acquire().await.unwrap();
        client.subscribe(one, name.clone()).await.unwrap();
        guard.release().await.unwrap();
        client.subscribe(two, name.clone()).await.unwrap();
        tokio::time::timeout(PATIENCE, first.0.notified()).await.expect("the first one hears of the release");
        client.unsubscribe(one, name.clone()).await.unwrap();
        client.unsubscribe(two, name).await.unwrap();
    }
}

/// This process sends requests all the time, while one of its tasks waits for another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_wakes_a_waiter_of_a_busy_process() {
    let file = LockFile::new();
    let (locks, others) = (file.locks().await, file.locks().await);
    let held = others.named("shared").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(locks.named("shared").unwrap().acquire_timeout(PATIENCE));
    let cycles = Arc::new(AtomicU64::new(0));
    let busy: Vec<_> = (0..16)
        .map(|number| {
            let (lock, cycles) = (locks.named(format!("busy:{number}")).unwrap(), cycles.clone());
            tokio::spawn(async move {
                loop {
                    lock.acquire().await.unwrap().release().await.unwrap();
                    cycles.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    held.release().await.unwrap();
    let released = cycles.load(Ordering::SeqCst);
    assert!(waiting.await.unwrap().unwrap().is_held());
    let meanwhile = cycles.load(Ordering::SeqCst) - released;
    // A process that does not look waits for more than twice as many.
    assert!(meanwhile < 5_000, "it waited for {meanwhile} cycles of others");
    busy.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The wall clock of another process is an hour ahead or behind, as if it had been set meanwhile.
async fn is_not_deceived_by_a_step(test: &str, seconds: i64) {
    let contend = |lock: Lock| async move {
        assert!(lock.try_acquire().await.unwrap().is_none());
        println!("\nrefused");
        let guard = lock.acquire_timeout(PATIENCE).await.unwrap();
        report(guard.fencing_token()).await;
        assert!(guard.release().await.unwrap().was_held());
    };
    if as_child(contend).await {
        return;
    }
    let file = LockFile::new();
    let (locks, clock) = (file.locks().await, ClockShift::new());
    let lock = locks.named("shared").unwrap();
    let guard = lock.acquire().await.unwrap();
    let first = guard.fencing_token();
    clock.set(seconds);
    let mut other = Other::with_clock(test, &file, &clock);
    other.hears("refused");
    drop(guard);
    let second = other.token();
    assert!(second > first);
    other.go_on();
    assert!(lock.acquire_timeout(PATIENCE).await.unwrap().fencing_token() > second);
    other.end();
}

#[tokio::test]
async fn clock_that_is_ahead_frees_no_lock() {
    is_not_deceived_by_a_step("sqlite::processes::clock_that_is_ahead_frees_no_lock", 3_600).await;
}

#[tokio::test]
async fn clock_that_is_behind_lowers_no_token() {
    is_not_deceived_by_a_step("sqlite::processes::clock_that_is_behind_lowers_no_token", -3_600).await;
}

/// Each process adds to a number in a file, which is no atomic operation.
#[tokio::test]
async fn processes_exclude_one_another() {
    const PROCESSES: u64 = 4;
    const ROUNDS: u64 = 50;
    let add = |lock: Lock| async move {
        let path = env::var("LOCK_SQLX_TEST_URL").unwrap().replace("sqlite:", "") + ".number";
        for _ in 0..ROUNDS {
            let guard = lock.acquire().await.unwrap();
            let number: u64 = fs::read_to_string(&path).unwrap().parse().unwrap();
            tokio::task::yield_now().await;
            fs::write(&path, (number + 1).to_string()).unwrap();
            assert!(guard.release().await.unwrap().was_held());
        }
    };
    if as_child(add).await {
        return;
    }
    let file = LockFile::new();
    let number = format!("{}.number", file.path().display());
    fs::write(&number, "0").unwrap();
    let others: Vec<_> = (0..PROCESSES)
        .map(|_| Other::of("sqlite::processes::processes_exclude_one_another", &file))
        .collect();
    tokio::task::spawn_blocking(|| others.into_iter().for_each(Other::end)).await.unwrap();
    assert_eq!(fs::read_to_string(number).unwrap(), (PROCESSES * ROUNDS).to_string());
}
