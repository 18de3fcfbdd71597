//! Helpers of the tests of several databases.

use lock_core::{
    Lock, LockFactory, LockGuard, LockName, LockOptions, Store,
    backend::{AcquireRequest, Acquired, Applied, BackendExt as _, Released, Renewed, Reply},
    clock::UtcTime,
    inspect::ForceReleaseOutcome,
};
use lock_ledger::{
    AfterAttempt, CatchUp, ClaimId, ClaimReply, ClaimRequest, EndRequest, GroupName, JobId, OverlapRule,
    Registration, RetryOf, RunId, RunLedger, RunOutcome, StartedRun,
};
use lock_testkit::{
    Direction, TcpProxy,
    contender::{Contender, LONG, next},
};
use sqlx::{Database, Transaction};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// Takes the lock from its holder, as an operator does.
pub(crate) async fn take_over(locks: &LockFactory, lock: &Lock) -> LockGuard {
    loop {
        match locks.force_release(lock.name()).await {
            Ok(ForceReleaseOutcome::HolderChanged) | Err(_) => continue,
            Ok(_) => {}
        }
        if let Ok(Some(guard)) = lock.try_acquire().await {
            return guard;
        }
    }
}

/// While the server is not reached, nothing is granted, and a hold ends in time.
pub(crate) async fn hold_ends_before_another_is_granted(
    proxy: &TcpProxy,
    locks: &LockFactory,
    others: &LockFactory,
) {
    let options = LockOptions::default().lease(Duration::from_secs(2));
    let guard = locks.named("x").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    proxy.stall(Direction::Both);
    let newer = others.named("x").unwrap().acquire_timeout(PATIENCE).await.unwrap();
    assert!(!guard.is_held(), "two holders");
    assert!(newer.fencing_token() > guard.fencing_token());
    proxy.pass();
    assert!(!guard.release().await.unwrap().was_held());
    assert!(newer.is_held());
}

/// A lease that does not end within a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn job(name: &str) -> JobId {
    JobId { group: GroupName::new("g").unwrap(), name: LockName::new(name).unwrap() }
}

/// Claims a run, or another attempt of it.
pub(crate) fn claim_of(job: JobId, run: RunId, after: Option<ClaimId>, lease: Duration) -> ClaimRequest {
    ClaimRequest {
        job,
        run,
        claim: ClaimId::random(),
        retry_of: after.map(|claim| RetryOf { claim, failures: 9, orphanings: 9 }),
        skip: None,
        after: None,
        not_after: None,
        schedule: 0,
        revision: 0,
        definition: 0,
        overlap: OverlapRule::Allow { max: 999 },
        pool: None,
        lease,
        node: "n".to_owned(),
        catch_up: CatchUp::No,
        history: 1000,
    }
}

/// Registers a job, and starts a run of it.
pub(crate) async fn start(ledger: &Arc<dyn RunLedger>, name: &str, lease: Duration) -> StartedRun {
    let registration = Registration { job: job(name).name, schedule: 0 };
    let registered = ledger.register(job(name).group, vec![registration]).await.unwrap();
    // The time of the run must have come.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let request = claim_of(job(name), RunId::at_millis(registered.now.as_millis() + 1), None, lease);
    let reply = ledger.claim(request.clone()).await.unwrap().outcome;
    assert!(matches!(reply, ClaimReply::Claimed { .. }), "{reply:?}");
    StartedRun::new(job(name), request.run, request.claim)
}

pub(crate) fn end_of(run: &StartedRun, outcome: RunOutcome, then: AfterAttempt) -> EndRequest {
    EndRequest {
        job: run.job().clone(),
        run: run.run(),
        claim: run.claim(),
        outcome,
        detail: String::new(),
        then,
        history: 1000,
    }
}

pub(crate) async fn outcomes(ledger: &Arc<dyn RunLedger>, name: &str) -> Vec<RunOutcome> {
    ledger.history(job(name), 2000).await.unwrap().outcome.iter().map(|attempt| attempt.outcome).collect()
}

/// From the fence to the end of its transaction, nobody else is granted the lock. Renewals, the release and other locks do not
/// wait for it.
pub(crate) async fn fence_delays_the_next_grant_and_nothing_else<DB: Database>(
    locks: &LockFactory,
    others: &LockFactory,
    fenced: impl AsyncFnOnce(&LockGuard) -> Transaction<'static, DB>,
) {
    let options = LockOptions::default().lease(Duration::from_secs(2));
    let guard = locks.named("x").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    let tx = fenced(&guard).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(guard.is_held(), "it was renewed beside the open transaction");
    assert!(guard.release().await.unwrap().was_held());
    let lock = others.named("x").unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none(), "granted beside an open transaction");
    let waiting = tokio::spawn(lock.acquire_timeout(Duration::from_secs(20)));
    // More than there are connections for acquires.
    for round in 0..8 {
        let other = others.named(format!("y:{round}")).unwrap().acquire().await.unwrap();
        other.release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!waiting.is_finished(), "granted beside an open transaction");
    tx.commit().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_held());
}

/// Shorter than the time that a statement waits for a row.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);

/// The lock whose row the tests lock.
pub(crate) fn x() -> LockName {
    LockName::new("x").unwrap()
}

/// An acquire that waits for the row of a free lock, and the transaction that has it.
async fn behind_the_row<DB: Database>(
    store: Store,
    row: impl Future<Output = Transaction<'static, DB>>,
    change: impl FnOnce(&mut AcquireRequest),
) -> (Transaction<'static, DB>, JoinHandle<Reply<Acquired>>) {
    let contender = Contender::new(&store.backend);
    contender.take(&x(), LONG).await;
    assert!(matches!(contender.release(&x(), 0).await, Released::Released { .. }));
    let tx = row.await;
    let other = Contender::new(&store.backend);
    let mut request = other.request(&x(), LONG, next(0, None)).await;
    change(&mut request);
    let waiting = tokio::spawn(async move { other.send(request).await });
    tokio::time::sleep(A_MOMENT).await;
    (tx, waiting)
}

pub(crate) async fn acquire_behind_a_row_is_late<DB: Database>(
    store: Store,
    row: impl Future<Output = Transaction<'static, DB>>,
) {
    // It has a few milliseconds to reach the row.
    let soon = |request: &mut AcquireRequest| {
        request.not_after = request.not_after - Duration::from_secs(60) + A_MOMENT / 2;
    };
    let (tx, waiting) = behind_the_row(store, row, soon).await;
    tx.rollback().await.unwrap();
    assert_eq!(waiting.await.unwrap().outcome, Acquired::Late);
}

pub(crate) async fn token_behind_a_row_is_drawn_after_it<DB: Database>(
    store: Store,
    row: impl Future<Output = Transaction<'static, DB>>,
    now: impl AsyncFnOnce(&mut DB::Connection) -> i64,
) {
    let (mut tx, waiting) = behind_the_row(store, row, |_| {}).await;
    let now = now(&mut tx).await;
    tx.rollback().await.unwrap();
    let reply = waiting.await.unwrap();
    match reply.outcome {
        Acquired::Granted { first, .. } => {
            assert!(first.as_i64() > now, "it was drawn before the row was locked");
            assert!(reply.now > UtcTime::from_micros(u64::try_from(now).unwrap()));
        }
        // A slow machine: the row was locked for longer than a statement waits.
        other => assert!(matches!(other, Acquired::Busy { .. }), "{other:?}"),
    }
}

/// The row of one lock is locked for a long time; the others of the same batch are renewed at once.
pub(crate) async fn locked_row_delays_no_other_renewal<DB: Database>(
    store: Store,
    row: impl Future<Output = Transaction<'static, DB>>,
) {
    let contender = Contender::new(&store.backend);
    let names: Vec<_> = ["w", "x", "y"].map(|name| LockName::new(name).unwrap()).into();
    for name in &names {
        contender.take(name, LONG).await;
    }
    let tx = row.await;
    let items = names.iter().map(|name| contender.renewal(name, LONG)).collect();
    let replies = store.backend.renew(items).await;
    let outcomes: Vec<_> = replies.into_iter().map(|reply| reply.map(|reply| reply.outcome)).collect();
    assert_eq!(*outcomes[0].as_ref().unwrap(), Renewed::Renewed);
    let error = outcomes[1].as_ref().unwrap_err();
    assert!(error.is_retryable() && error.applied() == Applied::No, "skipped is not gone: {error:?}");
    assert_eq!(*outcomes[2].as_ref().unwrap(), Renewed::Renewed);
    tx.rollback().await.unwrap();
}
