//! Unusual callers of a Redis client: threads that block, and threads outside any runtime.

use super::support::factory;
use lock_core::ReleaseOutcome;
use lock_testkit::{LastUse, RedisServer, outlives_a_blocked_thread};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

const LEASE: Duration = Duration::from_secs(3);

fn keeps_the_others(threads: usize) {
    let server = RedisServer::start();
    let tries = LastUse::ALL.map(|last| {
        let url = format!("{}/{}", server.url(), last as u8);
        let connect = async move { factory(&url, LEASE).await };
        (last, thread::spawn(move || outlives_a_blocked_thread(threads, last, LEASE, connect)))
    });
    let lost: Vec<_> =
        tries.into_iter().filter_map(|(last, held)| (!held.join().unwrap()).then_some(last)).collect();
    assert_eq!(lost, [], "locks lost after these uses of another lock");
}

#[test]
fn blocking_thread_loses_no_lock_with_one_worker() {
    keeps_the_others(1);
}

#[test]
fn blocking_thread_loses_no_lock_with_four_workers() {
    keeps_the_others(4);
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks like a small executor, without a runtime.
fn block_on<F: Future>(f: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut f = pin!(f);
    loop {
        if let Poll::Ready(done) = f.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_work_outside_of_the_runtime() {
    let server = RedisServer::start();
    let locks = factory(&server.url(), Duration::from_secs(30)).await;
    // The connections are those of this runtime.
    locks.named("y").unwrap().acquire().await.unwrap().release().await.unwrap();
    let outside = thread::spawn(move || {
        let lock = locks.named("x").unwrap();
        for _ in 0..3 {
            let guard = block_on(lock.try_acquire()).expect("the store answers").expect("free");
            assert_eq!(block_on(guard.release()).expect("confirmed"), ReleaseOutcome::Released);
            drop(block_on(lock.acquire()).expect("the store answers"));
            block_on(async { while locks.inspect("x").await.is_ok_and(|seen| seen.stored.is_some()) {} });
        }
    });
    let joined = tokio::task::spawn_blocking(move || outside.join()).await.unwrap();
    assert!(joined.is_ok());
}
