//! Requests that are lost, late, or given up.

use super::{
    scenarios,
    support::{Keys, Tested},
};
use lock_core::{
    LockErrorKind, LockName, LockOptions,
    backend::{Acquired, BackendExt as _},
};
use lock_testkit::{
    Direction, TcpProxy,
    contender::{Contender, LONG, held, next},
};
use std::{
    env,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::{task::block_in_place, time::sleep};

scenarios! {
    acquire_without_a_reply_leaves_no_lock
    late_acquire_is_refused
    hold_ends_with_the_session
    dropped_acquires_leave_no_lock
    late_acquire_is_refused_after_its_repeat_was_busy
    watch_is_made_again
}

const PATIENCE: Duration = Duration::from_secs(60);

/// The number of late acquires in a long run; otherwise a twentieth of it.
const LATE: usize = 1_000;

/// The first bytes with all these parts.
pub(crate) fn first_with(parts: &'static [&'static [u8]]) -> impl Fn(&[u8]) -> bool + Send + Sync + 'static {
    let was_seen = AtomicBool::new(false);
    move |bytes| {
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        parts.iter().all(|part| has(part)) && !was_seen.swap(true, Ordering::SeqCst)
    }
}

/// The first acquire of the lock `x`.
pub(crate) fn first_acquire<P: Tested>() -> impl Fn(&[u8]) -> bool + Send + Sync + 'static {
    first_with(P::ACQUIRE)
}

/// An acquire is executed, but its reply is lost. It is undone long before its lease ends.
async fn acquire_without_a_reply_leaves_no_lock<P: Tested>() {
    let keys = Keys::<P>::new();
    let proxy = TcpProxy::start(Keys::<P>::server());
    let (locks, others) = (keys.through(proxy.address(), 40).await, keys.locks().await);
    for _ in 0..3 {
        proxy.lose_replies(first_acquire::<P>());
        let first = locks.named("x").unwrap().try_acquire().await;
        proxy.pass();
        match first {
            // It was repeated over another connection within the call.
            Ok(guard) => drop(guard.expect("it is free").release().await.unwrap()),
            Err(error) => assert_ne!(error.kind(), LockErrorKind::Backend, "{error}"),
        }
        let other = others.named("x").unwrap().acquire_timeout(PATIENCE / 3).await.unwrap();
        other.release().await.unwrap();
    }
    assert_eq!(proxy.lost(), 3);
}

/// An acquire arrives after its client gave it up and undid it. It is refused, so the lock is free for ever.
async fn late_acquire_is_refused<P: Tested>() {
    let keys = Keys::<P>::new();
    let proxy = TcpProxy::start(Keys::<P>::server());
    let rounds = if env::var_os("LOCK_LONG").is_some() { LATE } else { LATE / 20 };
    let others = keys.locks().await;
    // A short timeout, so that many rounds fit into a session.
    let options = LockOptions::default().operation_timeout(Duration::from_millis(100));
    let locks = keys.through(proxy.address(), 40).await;
    for round in 0..rounds {
        proxy.capture(first_acquire::<P>());
        let lock = locks.named("x").unwrap().with_options(options).unwrap();
        // It may be repeated over another connection within the call.
        let mut first = lock.try_acquire().await;
        // The client may have been without a connection.
        while proxy.captured() == 0 && !matches!(first, Ok(Some(_))) {
            first = lock.try_acquire().await;
        }
        proxy.pass();
        if let Ok(Some(guard)) = first {
            guard.release().await.unwrap();
        }
        // Another process may have the lock before the undo is executed.
        let other = others.named("x").unwrap().acquire_timeout(PATIENCE).await.unwrap();
        other.release().await.unwrap();
        assert!(proxy.captured() > 0, "round {round}");
        block_in_place(|| proxy.deliver_captured());
        // At the latest the undo removes what arrived before it. An orphan would stay for a lease.
        let again = others.named("x").unwrap().acquire_timeout(PATIENCE / 6).await;
        let again =
            again.unwrap_or_else(|error| panic!("round {round}: a late acquire has the lock: {error}"));
        again.release().await.unwrap();
    }
}

/// A process is cut off for longer than its session. Its hold ends before the lock is granted to another one, and it can
/// go on with a new session afterwards.
async fn hold_ends_with_the_session<P: Tested>() {
    let keys = Keys::<P>::new();
    let proxy = TcpProxy::start(Keys::<P>::server());
    let (locks, others) = (keys.through(proxy.address(), 8).await, keys.locks().await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    proxy.stall(Direction::Both);
    let newer = others.named("x").unwrap().acquire_timeout(PATIENCE).await.unwrap();
    assert!(!guard.is_held(), "two holders");
    assert!(newer.fencing_token() > guard.fencing_token());
    proxy.pass();
    assert!(!guard.release().await.unwrap().was_held());
    assert!(newer.is_held());
    newer.release().await.unwrap();
    let again = locks.named("x").unwrap().acquire_timeout(PATIENCE).await.unwrap();
    sleep(Duration::from_secs(6)).await;
    assert!(again.is_held(), "the new session is renewed");
    again.release().await.unwrap();
}

/// Calls that are dropped at any time leave no lock behind, and disturb no other call.
async fn dropped_acquires_leave_no_lock<P: Tested>() {
    let keys = Keys::<P>::new();
    let (locks, others) = (keys.locks().await, keys.locks().await);
    for round in 0..60_u64 {
        let acquiring = locks.named("x").unwrap().acquire();
        drop(tokio::time::timeout(Duration::from_micros(round * 100), acquiring).await);
        let other = locks.named("y").unwrap().acquire_timeout(PATIENCE).await.unwrap();
        other.release().await.unwrap();
    }
    let last = others.named("x").unwrap().acquire_timeout(PATIENCE / 6).await.unwrap();
    last.release().await.unwrap();
}

/// An acquire is late, and its repeat finds the lock taken. After that answer, the late one is refused as well.
async fn late_acquire_is_refused_after_its_repeat_was_busy<P: Tested>() {
    let keys = Keys::<P>::new();
    let proxy = TcpProxy::start(Keys::<P>::server());
    let (ours, theirs) = (keys.backend(proxy.address()).await, keys.store().await.backend);
    let (a, b) = (Contender::new(&ours), Contender::new(&theirs));
    let name = LockName::new("x").unwrap();
    let request = a.request(&name, LONG, next(0, None)).await;
    proxy.capture(first_acquire::<P>());
    let late = tokio::time::timeout(PATIENCE / 6, ours.acquire(request.clone())).await;
    assert!(!matches!(late, Ok(Ok(_))), "{late:?}");
    proxy.pass();
    b.take(&name, LONG).await;
    // The first attempt of a connection that was cut may fail.
    let repeated = loop {
        if let Ok(reply) = ours.acquire(request.clone()).await {
            break reply.outcome;
        }
    };
    assert!(matches!(repeated, Acquired::Busy { .. }), "{repeated:?}");
    b.free(&name).await;
    assert_eq!(proxy.captured(), 1);
    block_in_place(|| proxy.deliver_captured());
    assert_eq!(held(&theirs, &name).await, None, "the late acquire was executed");
}

/// The stream of a waiter is cut. It watches again, and is woken by a release long before it would ask by itself.
async fn watch_is_made_again<P: Tested>() {
    let keys = Keys::<P>::new();
    let proxy = TcpProxy::start(Keys::<P>::server());
    let (locks, others) = (keys.through(proxy.address(), 40).await, keys.locks().await);
    let guard = others.named("x").unwrap().acquire().await.unwrap();
    let options = LockOptions::default().poll_interval(Duration::from_secs(600));
    let lock = locks.named("x").unwrap().with_options(options).unwrap();
    let waiting = tokio::spawn(lock.acquire_timeout(Duration::from_secs(600)));
    sleep(Duration::from_secs(1)).await;
    for _ in 0..2 {
        block_in_place(|| proxy.cut());
        sleep(Duration::from_secs(1)).await;
    }
    sleep(Duration::from_secs(3)).await;
    assert!(!waiting.is_finished() && guard.is_held());
    guard.release().await.unwrap();
    let newer = tokio::time::timeout(PATIENCE / 6, waiting).await.expect("it is woken").unwrap().unwrap();
    newer.release().await.unwrap();
}
