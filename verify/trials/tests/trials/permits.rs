//! Permits of semaphores, read-write locks and fair locks under random faults, and after crashes at every step: never more
//! than the limit are valid at once, and none is lost.

use crate::{
    figure::{Figure, Run, ms},
    stage::{Bench, HANGS, Referee, blocking, factory, on_a_runtime, orphans, store},
    support::command,
};
use lock_core::{LockFactory, LockOptions, clock::BootClock};
use lock_testkit::{Direction, RedisServer, Seed, Stream, TcpProxy};
use lock_trials::{
    node::permit::{LIMIT, share},
    process::{Process, at_once},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(1);
/// The time for which the store keeps the place of a waiter that has ended.
pub(crate) const PATIENCE: Duration = Duration::from_secs(6);
const NAMES: [&str; 3] = ["shared:1", "shared:2", "shared:3"];
const PROCESSES: usize = 3;
/// The number of tasks of a process that take permits.
const TASKS: usize = 8;

pub(crate) fn permits_under_faults(run: &Run) -> Vec<Figure> {
    let referee = Referee::appears();
    let server = Arc::new(RedisServer::builder().persistent().start());
    let time = Duration::from_secs(run.times(8, 1_800));
    let (faults, after) = on_a_runtime(async {
        let faults = contend(&server, referee.bench(), run.seed, time).await;
        (faults, all_permits(&server, &NAMES.map(str::to_owned)).await)
    });
    let bound = LEASE + PATIENCE;
    run.bound(after, bound);
    let verdict = referee.verdict();
    assert_eq!(verdict.texts(), Vec::<String>::new());
    assert!(verdict.windows > 0);
    vec![Figure::new(
        "weighted permits of semaphores of 5, readers and writers, fair locks, three of each, under random faults, also `kill -9` and \
         `SIGSTOP`; 3 processes of 8 tasks, lease 1 s",
        format!("{} s, {faults} faults", time.as_secs()),
        format!(
            "never more than the limit valid; after `kill -9` of all, the whole limit within {}",
            ms(bound)
        ),
        format!("0 overlaps in {} holds; the whole limit after {}", verdict.windows, ms(after)),
    )]
}

/// Lets processes take permits under random faults, and kills them all. Returns the number of faults.
async fn contend(server: &Arc<RedisServer>, bench: Bench, seed: Seed, time: Duration) -> u64 {
    let (way, mut dice) = (TcpProxy::start(server.address()), seed.stream());
    let mut starts = {
        let (url, lease) = (way.url(), LEASE.as_millis().to_string());
        let mut seeds = seed.stream();
        move || {
            let (tasks, seed) = (TASKS.to_string(), format!("--seed={}", seeds.number()));
            let words = [["share", &seed, &tasks].as_slice(), &NAMES].concat();
            let mut process = bench.watches(&url, lease.parse().unwrap(), &words);
            // A process that fails to connect has ended, and must not be stopped by a signal.
            process.expect("ready");
            process
        }
    };
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| starts()).collect();
    let (begin, mut faults) = (Instant::now(), 0);
    while begin.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(dice.below(300))).await;
        let process = &mut processes[usize::try_from(dice.below(PROCESSES as u64)).unwrap()];
        faults += 1;
        // Shorter or longer than a lease: some holds survive it, others do not.
        let lasts = LEASE * u32::try_from(dice.below(17)).unwrap() / 10;
        match dice.below(9) {
            0 => {
                process.kill();
                *process = starts();
                continue;
            }
            1 | 2 => {
                process.pause();
                tokio::time::sleep(lasts).await;
                process.resume();
                continue;
            }
            3 => {
                blocking(server, move |server| {
                    server.pause();
                    sleep(lasts);
                    server.resume();
                })
                .await;
                continue;
            }
            4 => way.cut(),
            5 => way.stall(Direction::ToServer),
            6 => way.stall(Direction::ToClient),
            7 => way.delay(Duration::from_millis(dice.below(120))),
            _ => {
                let dice = Mutex::new(Seed::new(dice.number()).stream());
                way.lose_replies(move |_| dice.lock().unwrap().below(10) == 0);
            }
        }
        tokio::time::sleep(lasts).await;
        way.pass();
    }
    faults
}

/// Takes the whole limit of all pools with these names. Returns the time after which the last one was granted. Panics if a
/// permit is lost, or if something is left in the store after the release.
async fn all_permits(server: &RedisServer, names: &[String]) -> Duration {
    // A waiter that has died has its place for its patience, and its grant may follow.
    let locks = factory(&server.url(), LockOptions::new().lease(LEASE * 10)).await;
    let begin = Instant::now();
    let taking = names.iter().map(|name| {
        let (semaphore, pair) = (locks.semaphore(name, LIMIT).unwrap(), locks.rw_lock(name).unwrap());
        let fair = locks.fair(name).unwrap();
        tokio::spawn(async move {
            let permits = semaphore.acquire_many_timeout(LIMIT, HANGS).await.expect("no permit is lost");
            let writer = pair.write().acquire_timeout(HANGS).await.expect("no reader is lost");
            let turn = fair.acquire_timeout(HANGS).await.expect("no turn is lost");
            (permits, writer, turn, begin.elapsed())
        })
    });
    let mut latest = Duration::ZERO;
    for (taking, name) in taking.collect::<Vec<_>>().into_iter().zip(names) {
        let (permits, writer, turn, after) = taking.await.unwrap();
        let used = server.command(&["HGET", &format!("distlock:semaphore/{name}"), "@used"]);
        assert_eq!(used.text(), LIMIT.to_string(), "{name}: no permit is counted twice or not at all");
        permits.release().await.unwrap();
        writer.release().await.unwrap();
        turn.release().await.unwrap();
        latest = latest.max(after);
    }
    let left: Vec<_> = orphans(server).into_iter().filter(|key| !key.contains(":process:")).collect();
    assert_eq!(left, Vec::<String>::new(), "nothing is left in the store");
    latest
}

pub(crate) fn permits_lost_to_crashes(run: &Run) -> Vec<Figure> {
    let server = Arc::new(RedisServer::start());
    // A client that crashes in this process is cheaper than a process.
    let (clients, kills) = (run.times(100, 11_000), run.times(20, 1_500));
    // So many that few have the places of others that crashed.
    let pools: u64 = run.times(100, 2_000);
    let left = Arc::new(AtomicUsize::new(clients + kills));
    let crashed: usize = {
        let (url, seed) = (server.url(), run.seed);
        at_once(4, move |thread| {
            let mut random = Seed::new(seed.get() ^ thread as u64).stream();
            let mut crashed = 0;
            while let Ok(number) =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            {
                let name = format!("crash:{}", random.below(pools));
                match number <= kills {
                    true => is_killed(&url, &name, &mut random),
                    false => crashes(&url, &name, &mut random),
                }
                crashed += TASKS;
            }
            crashed
        })
        .into_iter()
        .sum()
    };
    let names: Vec<_> = (0..pools).map(|number| format!("crash:{number}")).collect();
    let after = on_a_runtime(all_permits(&server, &names));
    let bound = LEASE + PATIENCE;
    run.bound(after, bound);
    vec![Figure::new(
        "holders and waiters of permits crash at random steps, by `kill -9` or with their connection and runtime",
        format!("{crashed}, {} of them by `kill -9`", kills * TASKS),
        format!("no permit is lost: the whole limit within {}; nothing left", ms(bound)),
        format!("0 of {pools} pools lost a permit; {}; 0 keys left", ms(after)),
    )]
}

/// The process is killed while its tasks hold, wait, or have a request in flight.
fn is_killed(url: &str, name: &str, random: &mut Stream) {
    let (tasks, seed) = (TASKS.to_string(), format!("--seed={}", random.number()));
    let lease = u64::try_from(LEASE.as_millis()).unwrap();
    let mut process = Process::start(&mut command(url, lease, &["share", &seed, &tasks, name]));
    sleep(Duration::from_millis(random.below(100)));
    process.kill();
}

/// The client ends with its runtime: the drop of its permits sends nothing.
fn crashes(url: &str, name: &str, random: &mut Stream) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store(url).await;
        // With a clock of its own, the factory works in this runtime.
        let options = LockOptions::new().lease(LEASE);
        let locks = LockFactory::builder(store).options(options).clock(Arc::new(BootClock::new()));
        let (locks, names, seed) = (locks.build().unwrap(), [name.to_owned()], Seed::new(random.number()));
        let sharing = share(&locks, &names, TASKS as u64, (LEASE, seed), None);
        // Sometimes long enough for renewals.
        let longest = if random.below(20) == 0 { 1_000_000 } else { 40_000 };
        let time = Duration::from_micros(random.below(longest));
        if let Ok(error) = tokio::time::timeout(time, sharing).await {
            panic!("the tasks continue: {error:?}");
        }
    });
    drop(runtime);
}
