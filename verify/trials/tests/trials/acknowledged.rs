//! A master that is cut off from its replicas and dies. If `replicas(n)` covers all of them, it grants and renews
//! nothing after the cut, so nothing can be lost.

use crate::{
    cycle::{self, CYCLES},
    figure::{Figure, Run, ms},
    sections::BUDGET,
    sentinel::{cut_off, rejoin, replaced},
    stage::{Referee, lock, on_a_runtime, store, until},
};
use lock_core::{
    LockErrorKind, LockFactory, LockOptions, LostReason,
    observer::{LockEvent, LockEventKind, LockObserver, RenewalOutcome},
};
use lock_testkit::{RedisSentinels, RedisServer};
use lock_trials::{cli::Client, referee::Witness};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::task::{JoinSet, block_in_place};

const LEASE: Duration = Duration::from_secs(6);
const CLIENTS: usize = 3;
/// The locks that all clients take repeatedly. In addition, each client holds a lock of its own.
const LOCKS: usize = 4;

/// The numbers of grants and renewals that the store confirmed to the clients, and of renewals that it did not.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<[AtomicU64; 3]>);

impl Seen {
    fn count(&self, number: usize) -> u64 {
        self.0[number].load(SeqCst)
    }

    /// Returns the number of grants and of renewals.
    fn confirmed(&self) -> (u64, u64) {
        (self.count(0), self.count(1))
    }

    fn failed(&self) -> u64 {
        self.count(2)
    }
}

impl LockObserver for Seen {
    fn on_event(&self, event: &LockEvent<'_>) {
        let number = match &event.kind {
            LockEventKind::Granted { .. } => 0,
            LockEventKind::Renewal { outcome: RenewalOutcome::Renewed, .. } => 1,
            LockEventKind::Renewal { .. } => 2,
            _ => return,
        };
        self.0[number].fetch_add(1, SeqCst);
    }
}

pub(crate) fn cut_off_masters(run: &Run) -> Vec<Figure> {
    let times = run.times(1, 5);
    let (deployment, referee, seen) = (RedisSentinels::start(), Referee::appears(), Seen::default());
    let cost = on_a_runtime(cost(&deployment));
    let failed = on_a_runtime(cut_repeatedly(&deployment, &seen, referee.bench().witness(LEASE / 20), times));
    let (windows, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    vec![
        Figure::new(
            "Sentinel with `replicas(2)`: the master is cut off from its 2 replicas for half a lease, and killed",
            times,
            "no grant and no renewal until 2 replicas follow the new master; no hold is `Lost(Gone)`, no overlap",
            format!(
                "0 grants, 0 renewals, {failed} renewals not acknowledged; 0 overlaps in {windows} holds"
            ),
        ),
        cost,
    ]
}

async fn cost(deployment: &RedisSentinels) -> Figure {
    let server = RedisServer::start();
    let alone = cycle::median(store(&server.url()).await).await;
    let followed = cycle::median(store(&deployment.url()).await).await;
    let acknowledged = Client::of_this_run().connect_with_replicas(&deployment.url(), 2).await.unwrap();
    let acknowledged = cycle::median(acknowledged).await;
    Figure::new(
        "– acquire and release of one task, nothing else: one server / Sentinel / Sentinel with `replicas(2)`",
        format!("{CYCLES} each"),
        "–",
        format!("median {} / {} / {}", ms(alone), ms(followed), ms(acknowledged)),
    )
}

async fn cut_repeatedly(deployment: &RedisSentinels, seen: &Seen, witness: Witness, times: usize) -> u64 {
    let budget = Duration::from_millis(BUDGET.parse().unwrap());
    let options = LockOptions::new().lease(LEASE).outage_budget(budget);
    let (over, mut working, mut clients) = (Arc::new(AtomicBool::new(false)), JoinSet::new(), Vec::new());
    for number in 0..CLIENTS {
        let store = Client::of_this_run().connect_with_replicas(&deployment.url(), 2).await.unwrap();
        let locks = LockFactory::builder(store).options(options).observer(seen.clone()).build().unwrap();
        for name in 0..LOCKS {
            let lock = lock(&locks, &format!("shared:{name}"));
            working.spawn(take(lock, witness.clone(), over.clone()));
        }
        working.spawn(hold(lock(&locks, &format!("own:{number}")), witness.clone(), over.clone()));
        clients.push(locks);
    }
    drop(witness);
    let mut failed = 0;
    for round in 0..times {
        all_resume(seen).await;
        let (old, replicas) = block_in_place(|| cut_off(deployment));
        for (number, locks) in clients.iter().enumerate() {
            is_refused(locks, &format!("probe:{round}:{number}")).await;
        }
        // By now, acknowledgements from before the cut have been reported.
        let (confirmed, failed_before) = (seen.confirmed(), seen.failed());
        tokio::time::sleep(LEASE / 2).await;
        old.stop();
        block_in_place(|| {
            replicas.iter().for_each(|replica| replica.resume());
            replaced(deployment, old);
        });
        // One replica is left, but two must acknowledge.
        tokio::time::sleep(LEASE / 6).await;
        assert_eq!(seen.confirmed(), confirmed, "grants and renewals by a master that is cut off");
        let not_acknowledged = seen.failed() - failed_before;
        assert!(not_acknowledged > 0, "some renewals came due during the cut");
        failed += not_acknowledged;
        block_in_place(|| {
            old.restart();
            rejoin(deployment, old);
            deployment.settle();
        });
    }
    all_resume(seen).await;
    over.store(true, SeqCst);
    while let Some(work) = working.join_next().await {
        work.unwrap();
    }
    failed
}

/// Waits until grants and renewals succeed again for all clients.
async fn all_resume(seen: &Seen) {
    let (grants, renewals) = seen.confirmed();
    let enough = 10 * (CLIENTS * LOCKS) as u64;
    until("locks are granted and renewed again", async || {
        seen.count(0) > grants + enough && seen.count(1) >= renewals + CLIENTS as u64
    })
    .await;
}

async fn is_refused(locks: &LockFactory, name: &str) {
    let error = lock(locks, name).try_acquire().await.map(drop).expect_err("not acknowledged");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:?}");
}

async fn take(lock: lock_core::Lock, witness: Witness, over: Arc<AtomicBool>) {
    while !over.load(SeqCst) {
        let guard = lock.acquire().await.expect("waiters outlast the outage");
        let inside = witness.enters(guard.hold());
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(inside);
        let _ = guard.release().await;
    }
}

/// Holds the lock until the hold is lost, and acquires it again.
async fn hold(lock: lock_core::Lock, witness: Witness, over: Arc<AtomicBool>) {
    while !over.load(SeqCst) {
        let guard = lock.acquire().await.expect("waiters outlast the outage");
        let _inside = witness.enters(guard.hold());
        let lost = std::pin::pin!(guard.lost());
        tokio::select! {
            reason = lost => assert_eq!(reason, LostReason::Expired, "an acknowledged hold is not lost with its master"),
            () = async { while !over.load(SeqCst) { tokio::time::sleep(LEASE / 100).await; } } => {}
        }
    }
}
