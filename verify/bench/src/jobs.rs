//! The child process: it does one job of a measurement, and ends.

use crate::{
    Result,
    contestants::{self, Contestant, Lock, Locks},
    load::{Load, cycle},
    machine::{Usage, nanos, now, pin, resident_bytes},
    order::{Answer, Job, Order, Subject, wait_for_start},
    requests,
    sections::write,
};
use allocation_counter::{AllocationInfo, measure};
use lock_testkit::RawRedis;
use serde::{Deserialize, Serialize};
use std::{process, thread, time::Duration};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
    time::{sleep, timeout},
};

/// The time after the window at which an unfinished job counts as hanging.
const OVERTIME: Duration = Duration::from_secs(60);
/// The time for every task to try once and to subscribe.
const SETTLE: Duration = Duration::from_secs(1);

/// Executes an order. The process ends afterwards.
pub(crate) fn execute(order: &Order) -> Result<()> {
    if !order.cpus.is_empty() {
        pin(process::id(), &order.cpus)?;
    }
    let answer = match order.contestant {
        Contestant::Fred => with::<contestants::Fred>(order),
        Contestant::FredOtel => with::<contestants::FredOtel>(order),
        Contestant::RedisRs => with::<contestants::RedisRs>(order),
        Contestant::Memory => with::<contestants::Memory>(order),
        Contestant::Fenced => with::<contestants::Fenced>(order),
        Contestant::FencedRedisRs => with::<contestants::FencedRedisRs>(order),
        Contestant::Hash => with::<contestants::Hash>(order),
        Contestant::Queue => with::<contestants::Queue>(order),
        Contestant::HandOff => with::<contestants::HandOff>(order),
        Contestant::SetNx => with::<contestants::SetNx>(order),
        #[cfg(feature = "rslock")]
        Contestant::Rslock | Contestant::RslockQuorum | Contestant::RslockQuorumOneStopped => {
            with::<contestants::Rslock>(order)
        }
        #[cfg(not(feature = "rslock"))]
        Contestant::Rslock | Contestant::RslockQuorum | Contestant::RslockQuorumOneStopped => {
            Err("the feature `rslock` is off".into())
        }
        Contestant::Quorum | Contestant::QuorumOneStopped => with::<contestants::Quorum>(order),
        Contestant::QuorumFloor => with::<contestants::QuorumFloor>(order),
        Contestant::Postgres => with::<contestants::Postgres>(order),
        Contestant::PostgresFloor => with::<contestants::PostgresFloor>(order),
        Contestant::Fair => with::<contestants::Fair>(order),
        Contestant::OneSemaphore => with::<contestants::OneSemaphore>(order),
        Contestant::Sqlite => with::<contestants::Sqlite>(order),
        Contestant::SqliteFloor => with::<contestants::SqliteFloor>(order),
        Contestant::Etcd => with::<contestants::Etcd>(order),
        Contestant::EtcdFloor => with::<contestants::EtcdFloor>(order),
        Contestant::ZooKeeper => with::<contestants::ZooKeeper>(order),
        Contestant::ZooKeeperFloor => with::<contestants::ZooKeeperFloor>(order),
        Contestant::TokioMutex => with::<contestants::TokioMutex>(order),
        Contestant::Layer | Contestant::LayerFloor | Contestant::Handler => serve(order),
    };
    println!("{}", serde_json::to_string(&answer?)?);
    Ok(())
}

fn with<L: Locks>(order: &Order) -> Result<Answer> {
    match &order.job {
        Job::Cycles(load) => cycles::<L>(order, load),
        Job::Allocations(subject) => allocations::<L>(order, subject),
        Job::Waiters { count, window } => waiters::<L>(order, *count, *window),
        Job::Held { count, window } => held::<L>(order, *count, *window),
        Job::Requests { .. } => serve(order),
    }
}

fn serve(order: &Order) -> Result<Answer> {
    match order.job {
        Job::Requests { window } => requests::run(order, window),
        _ => Err(format!("{} is not a lock", order.contestant.label()).into()),
    }
}

/// The resources that client and servers used during a window.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Used {
    pub(crate) client: Usage,
    pub(crate) server: Usage,
}

impl Used {
    /// Measures the resources used during the window that begins at `start`. Blocks until the window ends.
    fn during(order: &Order, start: u64, window: Duration) -> Result<Self> {
        sleep_until(start);
        let before = Self::until_now(order)?;
        sleep_until(start + nanos(window));
        let after = Self::until_now(order)?;
        Ok(Self { client: after.client - before.client, server: after.server - before.server })
    }

    fn until_now(order: &Order) -> Result<Self> {
        let mut server = Usage::default();
        for process in &order.servers {
            server = server + Usage::of(*process)?;
        }
        Ok(Self { client: Usage::of(process::id())?, server })
    }
}

fn sleep_until(instant: u64) {
    thread::sleep(Duration::from_nanos(instant.saturating_sub(now())));
}

/// Returns the number of commands that the server has executed, including those inside scripts and excluding this
/// function's `INFO`.
fn commands(order: &Order) -> Result<u64> {
    let address = order.url.strip_prefix("redis://").unwrap_or(&order.url);
    let answer = RawRedis::connect(address.parse()?)?.try_command(&["INFO", "commandstats"])?;
    let calls = answer.text().lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls: u64 = rest.split(',').next()?.parse().ok()?;
        Some(calls).filter(|_| name != "info")
    });
    Ok(calls.sum())
}

/// Runs cycles of acquire and release on tokio's default runtime.
fn cycles<L: Locks>(order: &Order, load: &Load) -> Result<Answer> {
    let runtime = Runtime::new()?;
    let client = runtime.block_on(L::connect(&order.url))?;
    let locks = load.locks(&client, order.process)?;
    let start = wait_for_start()?;
    // The cycles before the start warm up connections, scripts and caches.
    let end = start + nanos(load.window);
    let mut tasks = JoinSet::new();
    for task in 0..load.tasks {
        let cycles = cycle(load.clone(), locks.clone(), order.process, task, end);
        tasks.spawn_on(cycles, runtime.handle());
    }
    let used = Used::during(order, start, load.window)?;
    let finish = async {
        let mut sections = Vec::new();
        while let Some(task) = tasks.join_next().await {
            sections.extend(task??);
        }
        Result::Ok(sections)
    };
    let sections = runtime
        .block_on(async { timeout(OVERTIME, finish).await })
        .map_err(|_| format!("tasks are still waiting for the lock {OVERTIME:?} after the end"))??;
    write(&order.records, &sections)?;
    Ok(serde_json::to_value(used)?)
}

/// The cost of waiters.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Waited {
    /// Increase of resident memory through the waiters, in bytes.
    pub(crate) resident: u64,
    /// Number of commands that the server executed during the window.
    pub(crate) commands: u64,
    /// Number of commands in a window of the same length before the first waiter.
    pub(crate) commands_before: u64,
}

/// Runs tasks that wait for a lock that another client holds. They should cause no load on Redis: as many commands as
/// without them, for renewals and for the connections.
fn waiters<L: Locks>(order: &Order, count: usize, window: Duration) -> Result<Answer> {
    let runtime = Runtime::new()?;
    // The second client excludes the first one like another process.
    let holder = runtime.block_on(L::connect(&order.url))?;
    let client = runtime.block_on(L::connect(&order.url))?;
    let to_hold = holder.lock("held")?;
    let held = runtime.block_on(to_hold.acquire())?;
    let lock = client.lock("held")?;
    wait_for_start()?;
    let commands_before = commands_during(order, window)?;
    // A lock that is not renewed would not last for both windows.
    runtime.block_on(to_hold.release(held))?;
    let _held = runtime.block_on(to_hold.acquire())?;
    let before = resident_bytes()?;
    let mut waiters = JoinSet::new();
    for _ in 0..count {
        waiters.spawn_on(wait(lock.clone()), runtime.handle());
    }
    sleep_until(now() + nanos(SETTLE));
    let resident = resident_bytes()?.saturating_sub(before);
    let commands = commands_during(order, window)?;
    if let Some(ended) = runtime.block_on(async { waiters.try_join_next() }) {
        return Err(format!("a waiter ended while the lock was held: {ended:?}").into());
    }
    Ok(serde_json::to_value(Waited { resident, commands, commands_before })?)
}

fn commands_during(order: &Order, window: Duration) -> Result<u64> {
    let before = commands(order)?;
    sleep_until(now() + nanos(window));
    Ok(commands(order)? - before)
}

/// The cost of held locks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Increase of resident memory through the held locks, in bytes.
    pub(crate) resident: u64,
    pub(crate) used: Used,
}

/// Holds locks while the watchdog renews them.
fn held<L: Locks>(order: &Order, count: usize, window: Duration) -> Result<Answer> {
    let runtime = Runtime::new()?;
    let client = runtime.block_on(L::connect(&order.url))?;
    let (locks, mut held) = (locks(&client, "held", count)?, Vec::with_capacity(count));
    wait_for_start()?;
    let before = resident_bytes()?;
    runtime.block_on(acquire_all(&locks, &mut held))?;
    let resident = resident_bytes()?.saturating_sub(before);
    let used = Used::during(order, now(), window)?;
    // A release fails if its lock was lost, so this shows that every lock was renewed in time.
    runtime.block_on(async {
        for (lock, held) in locks.iter().zip(held) {
            lock.release(held).await?;
        }
        Result::Ok(())
    })?;
    Ok(serde_json::to_value(Kept { resident, used })?)
}

/// The allocations of a subject.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Allocations {
    /// Number of cycles, waiters or locks.
    pub(crate) units: usize,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// Bytes that were still allocated at the end.
    pub(crate) live: i64,
}

impl Allocations {
    fn of(units: usize, info: AllocationInfo) -> Self {
        Self { units, count: info.count_total, bytes: info.bytes_total, live: info.bytes_current }
    }
}

/// Counts allocations on a separate single-threaded runtime, so that the numbers are reproducible and the counting does
/// not slow down other measurements.
fn allocations<L: Locks>(order: &Order, subject: &Subject) -> Result<Answer> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let counted = |work: &mut dyn FnMut() -> Result<usize>| {
        let mut units = Ok(0);
        let info = measure(|| units = work());
        units.map(|units| Allocations::of(units, info))
    };
    let client = runtime.block_on(L::connect(&order.url))?;
    wait_for_start()?;
    let allocations = match *subject {
        Subject::Cycles { tasks, each } => {
            let locks = locks(&client, "own", tasks)?;
            // The first run does not count, because connections and tables are still growing.
            runtime.block_on(cycles_of(&locks, each))?;
            counted(&mut || runtime.block_on(cycles_of(&locks, each)))
        }
        Subject::Waiters { count, settle } => {
            let holder = runtime.block_on(L::connect(&order.url))?;
            let _held = runtime.block_on(holder.lock("held")?.acquire())?;
            let lock = client.lock("held")?;
            let mut waiters = JoinSet::new();
            counted(&mut || {
                runtime.block_on(async {
                    for _ in 0..count {
                        waiters.spawn(wait(lock.clone()));
                    }
                    sleep(settle).await;
                });
                Ok(count)
            })
        }
        Subject::Held { count } => {
            let (locks, mut held) = (locks(&client, "held", count)?, Vec::with_capacity(count));
            counted(&mut || runtime.block_on(acquire_all(&locks, &mut held)).map(|()| count))
        }
    };
    Ok(serde_json::to_value(allocations?)?)
}

/// Returns this many locks, whose names have this prefix.
fn locks<L: Locks>(client: &L, prefix: &str, count: usize) -> Result<Vec<L::Lock>> {
    (0..count).map(|number| client.lock(&format!("{prefix}:{number}"))).collect()
}

async fn acquire_all<L: Lock>(locks: &[L], held: &mut Vec<L::Held>) -> Result<()> {
    for lock in locks {
        held.push(lock.acquire().await?);
    }
    Ok(())
}

/// Makes `each` cycles in a task for each lock, and returns their number.
async fn cycles_of<L: Lock>(locks: &[L], each: usize) -> Result<usize> {
    let mut tasks = JoinSet::new();
    for lock in locks {
        let lock = lock.clone();
        tasks.spawn(async move {
            for _ in 0..each {
                lock.release(lock.acquire().await?).await?;
            }
            Result::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(locks.len() * each)
}

/// Waits for a lock that is never released.
async fn wait<L: Lock>(lock: L) -> Result<()> {
    let held = lock.acquire().await?;
    lock.release(held).await
}
