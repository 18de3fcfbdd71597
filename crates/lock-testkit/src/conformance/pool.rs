//! Pool properties: claims while other runs in the pool are open, from any job of the group.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    ledger_fixture::{LedgerFixture, MANY, Run, SCHEDULE},
};
use lock_core::{LockName, backend::ProcessId, clock::UtcTime};
use lock_ledger::{
    AfterAttempt, ClaimReply, ClaimRequest, JobCommand, JobId, OverlapRule, PoolLimit, Registration, RunId,
    RunOutcome, Skip,
};
use std::time::Duration;

/// Two jobs in a group, both in the pool `heavy`.
struct PoolFixture {
    ledger: LedgerFixture,
    other: JobId,
    /// The other job's first watermark.
    begin: UtcTime,
}

fn heavy(max: u32) -> Option<PoolLimit> {
    Some(PoolLimit { name: LockName::new("heavy").expect("valid name"), max })
}

impl PoolFixture {
    async fn new(h: &impl LedgerHarness, hint: &str) -> Self {
        let ledger = LedgerFixture::new(h, hint).await;
        let name = LockName::new("other").expect("valid name");
        let other = JobId { group: ledger.job.group.clone(), name };
        let registration = Registration { job: other.name.clone(), schedule: SCHEDULE };
        let reply = ledger.client().register(other.group.clone(), vec![registration]).await;
        let begin = reply.expect("ledger call failed").outcome[0].watermark;
        h.pass(Duration::from_millis(10)).await;
        Self { ledger, other, begin }
    }

    /// Returns a claim for the first job's run scheduled this many milliseconds after the job's
    /// watermark.
    fn first(&self, millis: u64, max: u32) -> ClaimRequest {
        ClaimRequest { overlap: MANY, pool: heavy(max), ..self.ledger.request(self.ledger.instant(millis)) }
    }

    /// Returns a claim for the other job's run scheduled this many milliseconds after the job's
    /// watermark.
    fn second(&self, millis: u64, max: u32) -> ClaimRequest {
        let run = RunId::Scheduled(self.begin + Duration::from_millis(millis));
        ClaimRequest { job: self.other.clone(), run, ..self.first(millis, max) }
    }

    /// Returns a claim for the next attempt of the first job's run.
    fn after(&self, run: &Run, max: u32) -> ClaimRequest {
        ClaimRequest { overlap: MANY, pool: heavy(max), ..self.ledger.after(run, 9) }
    }

    async fn assert_full(&self, request: ClaimRequest, running: u32) {
        let reply = self.ledger.send(request).await;
        assert_eq!(reply, ClaimReply::PoolFull { running }, "the pool must be full");
    }

    async fn finish(&self, run: &Run) {
        self.ledger.end(run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    }
}

/// The limit covers all jobs of the group and is enforced atomically with the claim.
pub async fn open_runs_of_a_pool_are_bounded(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool").await;
    let first = pool.ledger.granted(pool.first(1, 2)).await;
    pool.ledger.granted(pool.second(1, 2)).await;
    pool.assert_full(pool.first(2, 2), 2).await;
    pool.assert_full(pool.second(2, 2), 2).await;
    pool.finish(&first).await;
    pool.ledger.granted(pool.first(2, 2)).await;
    pool.assert_full(pool.second(2, 2), 2).await;
    let open: Vec<_> = pool.ledger.open_runs().await.into_iter().map(|open| open.pool).collect();
    assert_eq!(open, [(); 2].map(|()| heavy(2).map(|pool| pool.name)));
}

/// Runs in other pools or without a pool do not count and are not limited.
pub async fn a_pool_bounds_only_its_runs(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool-other").await;
    pool.ledger.granted(pool.first(1, 1)).await;
    pool.ledger.granted(ClaimRequest { pool: None, ..pool.first(2, 1) }).await;
    let light = LockName::new("light").expect("valid name");
    let light = ClaimRequest { pool: Some(PoolLimit { name: light, max: 1 }), ..pool.second(1, 1) };
    pool.ledger.granted(light).await;
    pool.assert_full(pool.first(3, 1), 1).await;
}

/// A refused scheduled time is not decided, and a refused trigger keeps waiting. Both start when
/// the pool has room.
pub async fn a_full_pool_decides_nothing(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool-full").await;
    let first = pool.ledger.granted(pool.first(1, 1)).await;
    let id = *ProcessId::random().as_uuid();
    pool.ledger.command(JobCommand::Trigger { id, life: LONG, payload: None }).await;
    let watermark = pool.ledger.watermark(SCHEDULE).await;
    let requests = [pool.first(2, 1), ClaimRequest { run: RunId::Triggered(id), ..pool.first(2, 1) }];
    for request in &requests {
        pool.assert_full(request.clone(), 1).await;
    }
    assert_eq!(pool.ledger.watermark(SCHEDULE).await, watermark);
    assert_eq!(pool.ledger.outcomes().await, []);
    pool.finish(&first).await;
    for request in requests {
        let run = pool.ledger.granted(request).await;
        pool.finish(&run).await;
    }
}

/// A claim that requests a skip, or that the overlap rule skips, needs no place in the pool.
pub async fn a_skip_needs_no_place(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool-skip").await;
    pool.ledger.granted(pool.first(1, 1)).await;
    let overlapping = ClaimRequest { overlap: OverlapRule::Skip, ..pool.first(2, 1) };
    assert_eq!(pool.ledger.send(overlapping).await, ClaimReply::Skipped);
    let first = pool.ledger.instant(3);
    let skip = Some(Skip { first, count: 1, detail: "missed".to_owned() });
    assert_eq!(pool.ledger.send(ClaimRequest { skip, ..pool.first(3, 1) }).await, ClaimReply::Skipped);
}

/// A repeated claim is granted again, although its own run fills the pool.
pub async fn a_repeated_claim_keeps_its_place(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool-again").await;
    let request = pool.first(1, 1);
    let run = pool.ledger.granted(request.clone()).await;
    let again = ClaimReply::Claimed { token: run.token, attempt: 1, failures: 0, payload: None };
    assert_eq!(pool.ledger.send(request).await, again);
}

/// A run that waits for its next attempt keeps its place, so the attempt needs no additional one.
pub async fn a_waiting_run_keeps_its_place(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool-waiting").await;
    let first = pool.ledger.granted(pool.first(1, 1)).await;
    pool.ledger.end(&first, RunOutcome::Failed, AfterAttempt::Retry).await;
    pool.assert_full(pool.second(1, 1), 1).await;
    let second = pool.ledger.granted(pool.after(&first, 1)).await;
    pool.assert_full(pool.second(1, 1), 1).await;
    pool.finish(&second).await;
    pool.ledger.granted(pool.second(1, 1)).await;
}

/// When the lease of a dead node's run expires, the run's place becomes free. The run's next attempt
/// needs a place.
pub async fn an_orphan_takes_no_place(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool-orphan").await;
    let orphan = pool.ledger.granted(ClaimRequest { lease: SHORT, ..pool.first(1, 1) }).await;
    h.pass(PAST_SHORT).await;
    let taken = pool.ledger.granted(pool.first(2, 1)).await;
    pool.assert_full(pool.after(&orphan, 1), 1).await;
    assert_eq!(pool.ledger.outcomes().await, [], "a refused attempt must not end the previous one");
    pool.finish(&taken).await;
    let next = pool.ledger.granted(pool.after(&orphan, 1)).await;
    assert!(next.attempt == 2 && next.token > orphan.token, "{next:?} after {orphan:?}");
}

/// A released run gives up its place, and needs a place to continue.
pub async fn a_released_run_leaves_its_place(h: &impl LedgerHarness) {
    for then in [AfterAttempt::Reassign, AfterAttempt::Requeue] {
        let pool = PoolFixture::new(h, "pool-released").await;
        let first = pool.ledger.granted(pool.first(1, 1)).await;
        pool.ledger.end(&first, RunOutcome::Cancelled, then).await;
        let second = pool.ledger.granted(pool.first(2, 1)).await;
        pool.assert_full(pool.after(&first, 1), 1).await;
        pool.finish(&second).await;
        pool.ledger.granted(pool.after(&first, 1)).await;
        pool.assert_full(pool.first(3, 1), 1).await;
    }
}

/// A claim is checked against its own limit, regardless of the limits in other claims.
pub async fn each_claim_is_judged_by_its_own_limit(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool-limits").await;
    for millis in 1..=3 {
        pool.ledger.granted(pool.first(millis, 3)).await;
    }
    pool.assert_full(pool.second(1, 2), 3).await;
    pool.assert_full(pool.second(1, 3), 3).await;
    pool.ledger.granted(pool.second(1, 4)).await;
}

/// An attempt takes a place in the pool of its own claim, regardless of the previous attempt's
/// pool.
pub async fn an_attempt_is_in_the_pool_of_its_claim(h: &impl LedgerHarness) {
    let pool = PoolFixture::new(h, "pool-left").await;
    let first = pool.ledger.granted(pool.first(1, 1)).await;
    pool.ledger.end(&first, RunOutcome::Failed, AfterAttempt::Retry).await;
    pool.ledger.granted(ClaimRequest { pool: None, ..pool.after(&first, 1) }).await;
    pool.ledger.granted(pool.second(1, 1)).await;
}
