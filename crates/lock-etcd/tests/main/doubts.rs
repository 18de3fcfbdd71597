//! Attempts of unknown outcome: their ends, their repeats, and what others see meanwhile.

use super::{requests::first_with, support::Keys};
use lock_core::{
    LockName, LockOptions, Store, Worker,
    backend::{Acquired, BackendExt as _},
};
use lock_etcd::EtcdBackend;
use lock_testkit::{
    Direction, TcpProxy,
    contender::{Contender, LONG, held, next},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    task::block_in_place,
    time::{sleep, timeout},
};

fn name() -> LockName {
    LockName::new("x").unwrap()
}

/// The end of an unanswered attempt comes while its repeat is under way, over a slow network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_an_attempt_spares_the_grant_of_its_repeat() {
    let keys = Keys::new();
    let proxy = TcpProxy::start(Keys::server());
    let (ours, theirs) = (keys.backend(proxy.address()).await, keys.store().await.backend);
    let (a, b) = (Contender::new(&ours), Contender::new(&theirs));
    let lease = Duration::from_secs(3);
    let request = a.request(&name(), lease, next(0, None)).await;
    proxy.capture(first_with(&[b"/lock/x", b"/offset"]));
    let begun = Instant::now();
    assert!(ours.acquire(request.clone()).await.is_err());
    proxy.pass();
    held(&ours, &name()).await;
    proxy.delay(Duration::from_millis(100));
    // Its marker and its transaction take 200 ms each.
    sleep((begun + lease - Duration::from_millis(310)).saturating_duration_since(Instant::now())).await;
    assert!(matches!(ours.acquire(request).await.unwrap().outcome, Acquired::Granted { .. }));
    sleep(Duration::from_millis(300)).await;
    assert!(matches!(b.acquire(&name(), lease).await, Acquired::Busy { .. }), "two holders");
}

/// The same, but what ends the attempt arrives late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_end_of_an_attempt_spares_the_grant_of_its_repeat() {
    let keys = Keys::new();
    let proxy = TcpProxy::start(Keys::server());
    let (ours, theirs) = (keys.backend(proxy.address()).await, keys.store().await.backend);
    let (a, b) = (Contender::new(&ours), Contender::new(&theirs));
    let request = a.request(&name(), Duration::from_secs(1), next(0, None)).await;
    proxy.capture(first_with(&[b"/lock/x", b"/offset"]));
    assert!(ours.acquire(request.clone()).await.is_err());
    proxy.pass();
    proxy.capture(first_with(&[b"/lock/x"]));
    sleep(Duration::from_secs(3)).await;
    proxy.pass();
    let request = a.request(&name(), LONG, next(0, None)).await;
    let repeated = loop {
        if let Ok(reply) = ours.acquire(request.clone()).await {
            break reply.outcome;
        }
    };
    assert!(matches!(repeated, Acquired::Granted { .. }), "{repeated:?}");
    block_in_place(|| proxy.deliver_captured());
    assert!(matches!(b.acquire(&name(), LONG).await, Acquired::Busy { .. }), "two holders");
}

/// An attempt is given up, and its repeat is sent in the same turn of the keeper, as for a waiter that is woken. The
/// answer is that the lock is taken, so the first attempt must not take it later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeat_in_the_same_turn_knows_of_the_doubt() {
    let (slow, quick) = (TcpProxy::start(Keys::server()), TcpProxy::start(Keys::server()));
    for round in 0..5 {
        let prefix = format!("doubt-{round}/");
        let backend = async |hosts: String| {
            let url = format!("etcd://{hosts}?prefix={prefix}");
            Store::from(EtcdBackend::connect(&url).await.unwrap()).backend
        };
        let ours = backend(format!("{},{}", slow.address(), quick.address())).await;
        let theirs = backend(Keys::server().to_string()).await;
        let (a, b) = (Contender::new(&ours), Contender::new(&theirs));
        b.take(&name(), LONG).await;
        let mut request = a.request(&name(), LONG, next(0, None)).await;
        let again = request.clone();
        request.not_after = ours.server_now(&name()).unwrap() + Duration::from_millis(200);
        slow.stall(Direction::ToServer);
        let keeper = Worker::keeper().unwrap();
        let of_keeper = ours.clone();
        let repeated = keeper.handle().spawn(async move {
            let mut first = Box::pin(of_keeper.acquire(request));
            assert!(timeout(Duration::from_millis(100), &mut first).await.is_err());
            // The next request goes to the other server.
            assert!(timeout(Duration::from_millis(100), of_keeper.inspect(name())).await.is_err());
            sleep(Duration::from_millis(50)).await;
            drop(first);
            of_keeper.acquire(again).await.unwrap().outcome
        });
        let repeated = repeated.await.unwrap();
        assert!(matches!(repeated, Acquired::Busy { .. }), "{repeated:?}");
        b.free(&name()).await;
        slow.pass();
        sleep(Duration::from_millis(700)).await;
        assert_eq!(held(&theirs, &name()).await, None, "round {round}: the first attempt was executed");
    }
}

/// An outage that lasts longer than the leases of those that wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_longer_than_a_lease_makes_no_second_holder() {
    let keys = Keys::new();
    let proxy = TcpProxy::start(Keys::server());
    let (locks, others) = (keys.through(proxy.address(), "").await, keys.locks().await);
    let patient = Duration::from_secs(3600);
    let options = LockOptions::default().lease(Duration::from_secs(2)).outage_budget(patient);
    block_in_place(|| proxy.refuse());
    let acquire = |number| {
        let lock = locks.named(format!("n:{number}")).unwrap().with_options(options).unwrap();
        tokio::spawn(lock.acquire_timeout(Duration::from_secs(60)))
    };
    let waiting: Vec<_> = (0..40).map(acquire).collect();
    sleep(Duration::from_millis(3_500)).await;
    proxy.pass();
    proxy.delay(Duration::from_millis(20));
    let mut guards = Vec::new();
    for waiter in waiting {
        // On a slow machine, some get no reply in time.
        let Ok(guard) = waiter.await.unwrap() else { continue };
        let other = others.named(guard.name().as_str()).unwrap().try_acquire().await.unwrap();
        assert!(other.is_none() || !guard.is_held(), "{} has two holders", guard.name());
        guards.push(guard);
    }
    proxy.pass();
}

/// Releases that find nothing write the marker, which must not keep other acquires of the process from success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undos_do_not_starve_acquires() {
    let ours = Keys::new().store().await.backend;
    let is_over = Arc::new(AtomicBool::new(false));
    let undo = |number| {
        let (ours, is_over) = (ours.clone(), is_over.clone());
        tokio::spawn(async move {
            let (name, contender) = (LockName::new(format!("u:{number}")).unwrap(), Contender::new(&ours));
            while !is_over.load(Ordering::SeqCst) {
                contender.release(&name, 0).await;
            }
        })
    };
    let undos: Vec<_> = (0..50).map(undo).collect();
    for number in 0..40 {
        Contender::new(&ours).take(&LockName::new(format!("a:{number}")).unwrap(), LONG).await;
    }
    is_over.store(true, Ordering::SeqCst);
    for undo in undos {
        undo.await.unwrap();
    }
}
