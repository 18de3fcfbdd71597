//! Renewals: many leases in one round trip, independent of each other.

use super::support::{calls, client, factory, name};
use lock_core::backend::{Applied, BackendErrorKind, BackendExt as _, Renewed};
use lock_testkit::{RedisServer, contender::Contender};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_leases_are_renewed_in_few_round_trips() {
    const LEASES: usize = 300;
    const LEASE: Duration = Duration::from_secs(6);
    let server = RedisServer::start();
    let locks = factory(&server.url(), LEASE).await;
    let taking: Vec<_> = (0..LEASES)
        .map(|number| tokio::spawn(locks.named(format!("x:{number}")).unwrap().acquire()))
        .collect();
    let mut guards = Vec::new();
    for taking in taking {
        guards.push(taking.await.unwrap().unwrap());
    }
    let before = calls(&server, "evalsha");
    tokio::time::sleep(2 * LEASE).await;
    let renewals = calls(&server, "evalsha") - before;
    assert!(guards.iter().all(lock_core::LockGuard::is_held));
    eprintln!("{LEASES} leases over two leases' time: {renewals} requests instead of about {}", 6 * LEASES);
    assert!((6..=6 * LEASES as u64 / 10).contains(&renewals), "{renewals}");
}

#[tokio::test]
async fn failed_renewal_does_not_affect_other_leases() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let (a, b, c) = (Contender::new(&store), Contender::new(&store), Contender::new(&store));
    let (short, long) = (Duration::from_secs(10), Duration::from_secs(60));
    a.take(&name("a"), short).await;
    c.take(&name("c"), short).await;
    server.command(&["SET", "b", "no lock"]);
    let items = vec![a.renewal(&name("a"), long), b.renewal(&name("b"), long), c.renewal(&name("c"), long)];
    let answers = store.renew(items).await;
    assert_eq!(answers[0].as_ref().unwrap().outcome, Renewed::Renewed);
    let error = answers[1].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.applied()), (BackendErrorKind::WrongType, Applied::No));
    assert_eq!(answers[2].as_ref().unwrap().outcome, Renewed::Renewed);
    a.must_last(&name("a"), 1, long).await;
    c.must_last(&name("c"), 1, long).await;
}
