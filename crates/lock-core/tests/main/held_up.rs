//! A thread that blocks after it dropped a guard does not delay the keeper: other locks are still acquired and released.

use crate::support::{Kept, millis, secs};
use lock_core::{__private::wake_together, LockFactory, MemoryBackend, Store};
use lock_testkit::{Fault, FaultyBackend, Op};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

const BLOCK: Duration = secs(4);

/// `threads` tasks drop a guard and block their threads while another task acquires another lock.
fn others_go_on(blocked: usize) {
    let rt =
        tokio::runtime::Builder::new_multi_thread().worker_threads(blocked + 3).enable_all().build().unwrap();
    let memory = MemoryBackend::new();
    let store = FaultyBackend::new(memory.clone());
    // Like any store over a network: no answer at the first poll.
    store.always(Op::Acquire, Fault::Delay(millis(5)));
    let locks = LockFactory::builder(store).build().unwrap();
    // The timers of the runtime are always driven by other threads.
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
fn free_lock_is_acquired_while_two_threads_block() {
    others_go_on(2);
}

/// The runtime of the connection has a thread that blocks. The waiters use another runtime.
#[test]
fn replies_reach_another_runtime_while_a_connection_thread_blocks() {
    let memory = MemoryBackend::new();
    let kept = Arc::new(Kept::new(&memory));
    let locks = LockFactory::builder(Store::new(kept.clone()).pushing(Arc::new(memory))).build().unwrap();
    let connection =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (acquired, waits) = mpsc::channel();
    let (says, blocked) = mpsc::channel();
    connection.spawn(async move {
        while kept.len() < 2 {
            tokio::time::sleep(millis(1)).await;
        }
        // Another task of the application is next on this thread.
        tokio::spawn(async move {
            let _ = says.send(waits.recv_timeout(BLOCK).is_ok());
        });
        wake_together(|| kept.answer_all());
    });
    let caller = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let [a, b] = ["a", "b"].map(|name| locks.named(name).unwrap().acquire_timeout(millis(500)));
    let guards = caller.block_on(async { tokio::join!(a, b) });
    let _ = acquired.send(());
    assert!(guards.0.is_ok() && guards.1.is_ok());
    assert!(blocked.recv().unwrap(), "granted, and woken only when a blocked thread returned");
    drop(caller);
    drop(guards);
}
