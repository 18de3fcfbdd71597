//! Attempts of unknown outcome: their ends, their repeats, and what others see meanwhile.

use super::{
    requests::{first_acquire, first_with},
    scenarios,
    support::{Keys, Tested},
};
use lock_core::{
    LockName, LockOptions, Worker,
    backend::{Acquired, BackendExt as _},
};
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

scenarios! {
    end_of_an_attempt_spares_the_grant_of_its_repeat
    late_end_of_an_attempt_spares_the_grant_of_its_repeat
    repeat_in_the_same_turn_knows_of_the_doubt
    outage_longer_than_a_lease_makes_no_second_holder
    undos_do_not_starve_acquires
}

fn name() -> LockName {
    LockName::new("x").unwrap()
}

/// The end of an unanswered attempt comes while its repeat is under way, over a slow network.
async fn end_of_an_attempt_spares_the_grant_of_its_repeat<P: Tested>() {
    let keys = Keys::<P>::new();
    let proxy = TcpProxy::start(Keys::<P>::server());
    let (ours, theirs) = (keys.backend(proxy.address()).await, keys.store().await.backend);
    let (a, b) = (Contender::new(&ours), Contender::new(&theirs));
    let lease = Duration::from_secs(3);
    let request = a.request(&name(), lease, next(0, None)).await;
    proxy.capture(first_acquire::<P>());
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
async fn late_end_of_an_attempt_spares_the_grant_of_its_repeat<P: Tested>() {
    let keys = Keys::<P>::new();
    let proxy = TcpProxy::start(Keys::<P>::server());
    let (ours, theirs) = (keys.backend(proxy.address()).await, keys.store().await.backend);
    let (a, b) = (Contender::new(&ours), Contender::new(&theirs));
    let request = a.request(&name(), Duration::from_secs(1), next(0, None)).await;
    proxy.capture(first_acquire::<P>());
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
async fn repeat_in_the_same_turn_knows_of_the_doubt<P: Tested>() {
    for round in 0..5 {
        let (slow, mut quick) = (TcpProxy::start(Keys::<P>::server()), TcpProxy::start(Keys::<P>::server()));
        let keys = Keys::<P>::new();
        let ours = keys.at(&format!("{},{}", slow.address(), quick.address()), 40).await.backend;
        let theirs = keys.store().await.backend;
        let (a, b) = (Contender::new(&ours), Contender::new(&theirs));
        b.take(&name(), LONG).await;
        let mut request = a.request(&name(), LONG, next(0, None)).await;
        let again = request.clone();
        request.not_after = ours.server_now(&name()).unwrap() + Duration::from_millis(200);
        // A client of ZooKeeper has a connection to one of them.
        let slow = if slow.connections() > 0 { slow } else { std::mem::replace(&mut quick, slow) };
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
            // The first attempt of a connection that was cut may fail.
            loop {
                if let Ok(reply) = of_keeper.acquire(again.clone()).await {
                    break reply.outcome;
                }
            }
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
async fn outage_longer_than_a_lease_makes_no_second_holder<P: Tested>() {
    let keys = Keys::<P>::new();
    let proxy = TcpProxy::start(Keys::<P>::server());
    let (locks, others) = (keys.through(proxy.address(), 40).await, keys.locks().await);
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
async fn undos_do_not_starve_acquires<P: Tested>() {
    let ours = Keys::<P>::new().store().await.backend;
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
