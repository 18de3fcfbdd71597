//! Guards that are dropped where nothing can be awaited: outside a runtime, during its shutdown, and in a panic.

use crate::{
    figure::{Figure, Run, ms},
    stage::{ENDLESS, factory, lock, on_a_runtime, orphans, until},
};
use lock_core::{LockFactory, LockGuard, LockOptions};
use lock_testkit::RedisServer;
use rustix::time::{ClockId, clock_gettime};
use std::{
    panic::AssertUnwindSafe,
    sync::Once,
    time::{Duration, Instant},
};

/// The time limit of a release in the background.
const SOON: Duration = Duration::from_secs(1);
const BOUND: Duration = Duration::from_millis(1);

pub(crate) fn drops_in_odd_places(run: &Run) -> Vec<Figure> {
    let times = run.times(200, 1_000);
    let server = RedisServer::start();
    let places = [
        outside_of_a_runtime(&server, *run, times),
        after_its_runtime(&server, *run, times),
        on_a_runtime(at_shutdown(&server, *run, times)),
        on_a_runtime(in_a_panic(&server, *run, times)),
    ];
    let worst = places.map(|took| took.into_iter().max().unwrap());
    run.bound(worst.into_iter().max().unwrap(), BOUND);
    let worst = worst.map(ms).join(" / ");
    vec![Figure::new(
        "guards dropped outside of a runtime / after its end / at shutdown / in a panic",
        format!("{times} / {times} / {times} / {times}"),
        format!("no panic, nothing left, `drop` takes at most {} of its thread", ms(BOUND)),
        format!("0 panics, 0 keys left, {worst}"),
    )]
}

/// Returns the time that the drop costs its thread. Time during which another process has the core does not count.
fn drop_timed(guard: LockGuard) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
    };
    let before = now();
    drop(guard);
    now() - before
}

async fn guards(locks: &LockFactory, times: usize) -> Vec<LockGuard> {
    let mut guards = Vec::with_capacity(times);
    for number in 0..times {
        guards.push(lock(locks, &format!("x:{number}")).acquire().await.unwrap());
    }
    guards
}

async fn released(server: &RedisServer, run: Run) {
    let begin = Instant::now();
    until("all locks are released", async || orphans(server).is_empty()).await;
    run.bound(begin.elapsed(), SOON);
}

fn outside_of_a_runtime(server: &RedisServer, run: Run, times: usize) -> Vec<Duration> {
    on_a_runtime(async {
        let locks = factory(&server.url(), LockOptions::new().lease(ENDLESS)).await;
        let guards = guards(&locks, times).await;
        let dropping = std::thread::spawn(move || guards.into_iter().map(drop_timed).collect::<Vec<_>>());
        let took =
            tokio::task::spawn_blocking(move || dropping.join().expect("no drop panics")).await.unwrap();
        released(server, run).await;
        took
    })
}

fn after_its_runtime(server: &RedisServer, run: Run, times: usize) -> Vec<Duration> {
    const LEASE: Duration = Duration::from_secs(2);
    let (_locks, guards) = on_a_runtime(async {
        let locks = factory(&server.url(), LockOptions::new().lease(LEASE)).await;
        let guards = guards(&locks, times).await;
        (locks, guards)
    });
    let took = guards.into_iter().map(drop_timed).collect();
    // No process is left that could release them. The leases end on their own.
    std::thread::sleep(LEASE);
    on_a_runtime(released(server, run));
    took
}

async fn at_shutdown(server: &RedisServer, run: Run, times: usize) -> Vec<Duration> {
    let locks = factory(&server.url(), LockOptions::new().lease(ENDLESS)).await;
    let mut guards = guards(&locks, times).await;
    let after = guards.split_off(times / 2);
    let dropping =
        tokio::task::spawn_blocking(move || guards.into_iter().map(drop_timed).collect::<Vec<_>>());
    locks.shutdown().await;
    let mut took = dropping.await.unwrap();
    took.extend(after.into_iter().map(drop_timed));
    released(server, run).await;
    took
}

async fn in_a_panic(server: &RedisServer, run: Run, times: usize) -> Vec<Duration> {
    quiet_about_intended_panics();
    let locks = factory(&server.url(), LockOptions::new().lease(ENDLESS)).await;
    let took = guards(&locks, times)
        .await
        .into_iter()
        .map(|guard| {
            let mut took = Duration::ZERO;
            // Unwinding drops the guard inside a value that measures the time.
            let unwound = std::panic::catch_unwind(AssertUnwindSafe(|| {
                struct Timed<'a>(Option<LockGuard>, &'a mut Duration);
                impl Drop for Timed<'_> {
                    fn drop(&mut self) {
                        *self.1 = drop_timed(self.0.take().expect("dropped once"));
                    }
                }
                let _timed = Timed(Some(guard), &mut took);
                std::panic::panic_any(Intended);
            }));
            assert!(unwound.is_err_and(|panic| panic.is::<Intended>()));
            took
        })
        .collect();
    released(server, run).await;
    took
}

struct Intended;

fn quiet_about_intended_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.payload().is::<Intended>() {
                usual(panic);
            }
        }));
    });
}
