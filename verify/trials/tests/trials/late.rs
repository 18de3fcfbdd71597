//! Acquires that reach the server after their sender has given up.

use crate::{
    figure::{Figure, Run},
    lost::{contains, operation_timeout},
    stage::{assert_all_released, factory, lock, on_a_runtime, warm_up},
};
use lock_core::{LockErrorKind, LockOptions};
use lock_redis::model::marks;
use lock_testkit::{RedisServer, TcpProxy};
use std::time::Duration;

const AT_ONCE: usize = 20;
const LEASE: Duration = Duration::from_secs(5);

pub(crate) fn late_acquires(run: &Run) -> Vec<Figure> {
    on_a_runtime(acquires_come_late(*run))
}

async fn acquires_come_late(run: Run) -> Vec<Figure> {
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    let mut random = run.seed.stream();
    let mut clients = Vec::new();
    for _ in 0..AT_ONCE {
        clients.push(factory(&proxy.url(), LockOptions::new().lease(LEASE)).await);
    }
    warm_up(&clients[0]).await;
    let [acquire, ..] = marks();
    let (mut delivered, mut rounds) = (0, 0);
    while delivered < run.times(100, 500) {
        proxy.capture(move |chunk| contains(chunk, acquire));
        let giving_up: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, locks)| {
                let lock = lock(locks, &format!("late:{rounds}:{number}"));
                tokio::spawn(async move { lock.acquire_timeout(Duration::from_millis(40)).await.map(drop) })
            })
            .collect();
        for given_up in giving_up {
            let error = given_up.await.unwrap().unwrap_err();
            assert!(matches!(error.kind(), LockErrorKind::Unavailable | LockErrorKind::Timeout), "{error:?}");
        }
        // Before, around and after the time at which the requests become void.
        tokio::time::sleep(operation_timeout(LEASE) * u32::try_from(random.below(16)).unwrap() / 10).await;
        proxy.pass();
        delivered += proxy.deliver_captured();
        rounds += 1;
        tokio::time::sleep(2 * operation_timeout(LEASE)).await;
        assert_all_released(&server, LEASE).await;
    }
    // The names can still be used.
    let again = lock(&clients[0], "late:0:0").try_acquire().await.unwrap().expect("free");
    again.release().await.unwrap();
    vec![Figure::new(
        "acquires delivered after their sender gave up",
        delivered,
        "nothing left after two operation timeouts",
        "0 keys left",
    )]
}
