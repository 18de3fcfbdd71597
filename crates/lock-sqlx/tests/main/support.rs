//! Helpers of the tests of both databases.

use lock_core::{Lock, LockFactory, LockGuard, LockName, inspect::ForceReleaseOutcome};
use lock_ledger::{
    AfterAttempt, CatchUp, ClaimId, ClaimReply, ClaimRequest, EndRequest, GroupName, JobId, OverlapRule,
    Registration, RetryOf, RunId, RunLedger, RunOutcome, StartedRun,
};
use std::{sync::Arc, time::Duration};

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
