//! A thread that blocks after it dropped a guard holds up the worker; the other locks are acquired and released all the same.

use crate::support::{millis, secs};
use lock_core::{LockFactory, MemoryBackend};
use lock_testkit::{Fault, FaultyBackend, Op};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const BLOCK: Duration = secs(4);

/// `threads` tasks drop a guard and block their threads; meanwhile another task acquires another lock.
fn others_go_on(blocked: usize) {
    let rt =
        tokio::runtime::Builder::new_multi_thread().worker_threads(blocked + 3).enable_all().build().unwrap();
    let memory = MemoryBackend::new();
    let store = FaultyBackend::new(Arc::new(memory.clone()));
    // As any store over a network: no answer at the first poll.
    store.always(Op::Acquire, Fault::Delay(millis(5)));
    let locks = LockFactory::builder(store).build().unwrap();
    // The timers of the runtime are driven by other threads all the time.
    for _ in 0..3 {
        rt.spawn(async {
            loop {
                tokio::time::sleep(millis(1)).await
            }
        });
    }
    let over = Arc::new(AtomicUsize::new(0));
    for number in 0..blocked {
        let (lock, over) = (locks.named(format!("blocked:{number}")).unwrap(), over.clone());
        rt.spawn(async move {
            drop(lock.acquire().await.unwrap());
            std::thread::sleep(BLOCK);
            over.fetch_add(1, Ordering::SeqCst);
        });
        std::thread::sleep(millis(300));
    }
    let held = memory.held();
    let free = locks.named("free").unwrap();
    rt.block_on(rt.spawn(async move { drop(free.acquire().await.unwrap()) })).unwrap();
    assert_eq!(
        over.load(Ordering::SeqCst),
        0,
        "a free lock was granted only after a blocked thread returned"
    );
    assert_eq!(held, [], "dropped, and still held in the store");
}

#[test]
fn a_free_lock_is_had_while_a_thread_blocks() {
    others_go_on(1);
}

#[test]
fn a_free_lock_is_had_while_two_threads_block() {
    others_go_on(2);
}
