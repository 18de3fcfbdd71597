//! Correct run ledgers with one bug, each of which a named property must find.

use super::finds;
use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, FencingToken, LockName, MemoryBackend, TestClock,
    backend::{
        Reply,
        ledger::{
            Attempt, ClaimId, ClaimRequest, Claimed, EndRequest, Ended, GroupName, JobId, KeepRun, KeptRun,
            OpenRun, Order, Ordered, Orders, OverlapRule, Registered, RunLedger, RunOutcome, RunState, Then,
            Trigger,
        },
    },
};
use lock_testkit::conformance::{self, Harness};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// A repeat is taken for another claim.
    ForgetsClaims,
    /// A repeat is answered from the open runs alone.
    ForgetsClaimsThatEnded,
    /// A skip that is repeated starts.
    StartsRepeatedSkips,
    AgainWithoutBound,
    AgainAfterAnyAttempt,
    AgainBesideTheFirst,
    AgainDespiteOthers,
    AgainWithTheSameToken,
    IgnoresEpochs,
    ClaimMakesWatermark,
    StartsDuplicates,
    StartsSuperseded,
    IgnoresTheClock,
    IgnoresOverlap,
    SkipDecidesNothing,
    QueueDecides,
    ReplacesSilently,
    AllowsOneMore,
    CountsOrphans,
    ForgetsWaiting,
    ConstantToken,
    CheckThenClaim,
    RevivesOrphans,
    KeepsForAnybody,
    EndsForAnybody,
    ForgetsEnds,
    IgnoresPauses,
    IgnoresRevisions,
    TriggersAgain,
}

struct Mutated(Bug);

impl Harness for Mutated {
    async fn backend(&self) -> Arc<dyn Backend> {
        let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::with_clock(Arc::new(TestClock::new())));
        let (inner, seen, old) = (memory.clone(), Mutex::default(), Mutex::default());
        Arc::new(super::Mutant::with_ledger(Mutant { bug: self.0, inner, seen, old }, memory))
    }
}

#[derive(Debug)]
pub(super) struct Mutant {
    bug: Bug,
    inner: Arc<dyn Backend>,
    seen: Mutex<BTreeSet<ClaimId>>,
    /// Triggers that were ordered before.
    old: Mutex<Vec<Trigger>>,
}

const TOKEN: FencingToken = FencingToken::new(7);

impl Mutant {
    fn ledger(&self) -> &dyn RunLedger {
        self.inner.ledger().expect("the memory has a ledger")
    }

    async fn open_of(&self, job: &JobId) -> Vec<OpenRun> {
        let open = self.ledger().open(job.group.clone()).await.unwrap().outcome;
        open.into_iter().filter(|run| run.job == job.name).collect()
    }

    async fn end_of(&self, job: &JobId, run: &OpenRun, then: Then) {
        let (run, claim, detail) = (run.run, run.claim, String::new());
        let request = EndRequest { job: job.clone(), run, claim, outcome: RunOutcome::Failed, detail, then };
        self.ledger().end(request).await.unwrap();
    }

    /// What the bug makes of a claim before it is looked at.
    async fn spoil(&self, r: &mut ClaimRequest) {
        let open = self.open_of(&r.job).await;
        let same = open.iter().find(|open| open.run == r.run);
        let seen = !self.seen.lock().unwrap().insert(r.claim);
        match (self.bug, &mut r.again) {
            (Bug::ForgetsClaims, _) if seen => r.claim = ClaimId::random(),
            (Bug::ForgetsClaimsThatEnded | Bug::StartsRepeatedSkips, _) if seen && same.is_none() => {
                r.claim = ClaimId::random();
            }
            (Bug::AgainWithoutBound, Some(again)) => again.most = u32::MAX,
            (Bug::AgainAfterAnyAttempt, Some(again)) => {
                again.claim = same.map_or(again.claim, |run| run.claim)
            }
            (Bug::AgainBesideTheFirst, Some(_)) => {
                if let Some(run) = same {
                    self.end_of(&r.job, run, Then::Again).await;
                }
            }
            (Bug::AgainDespiteOthers, Some(_)) | (Bug::IgnoresOverlap, _) => {
                r.overlap = OverlapRule::Allow { max: u32::MAX };
            }
            (Bug::IgnoresEpochs, _) => r.epoch = FencingToken::new(1 << 50),
            (Bug::ClaimMakesWatermark, _) => {
                self.ledger().register(r.job.group.clone(), vec![r.job.name.clone()]).await.unwrap();
            }
            (Bug::IgnoresTheClock, _) => r.tolerance = Duration::from_secs(3600),
            (Bug::QueueDecides, _) if r.overlap == OverlapRule::Queue => r.overlap = OverlapRule::Skip,
            (Bug::ReplacesSilently, _) if r.overlap == OverlapRule::Replace => r.overlap = OverlapRule::Queue,
            (Bug::ForgetsWaiting, _) => {
                for run in open.iter().filter(|run| run.state == RunState::Waiting && run.run != r.run) {
                    self.end_of(&r.job, run, Then::Over).await;
                }
            }
            _ => {}
        }
        if let (Bug::AllowsOneMore, OverlapRule::Allow { max }) = (self.bug, &mut r.overlap) {
            *max = max.saturating_add(1);
        }
        if self.bug == Bug::IgnoresRevisions || self.bug == Bug::IgnoresPauses {
            r.revision = match self.ledger().orders(r.job.group.clone(), u64::MAX).await.unwrap().outcome {
                Orders::Changed { jobs, .. } => {
                    let of_job = jobs.iter().find(|(name, _)| *name == r.job.name);
                    of_job.map_or(0, |(_, orders)| orders.revision)
                }
                _ => 0,
            };
        }
    }

    /// An answer without asking.
    async fn instead(&self, r: &ClaimRequest) -> Option<Claimed> {
        let others: Vec<_> = self.open_of(&r.job).await.into_iter().filter(|run| run.run != r.run).collect();
        let alive = others.iter().filter(|run| run.state != RunState::Orphaned).count();
        let skipped = |count: usize| Claimed::Skipped { running: u32::try_from(count).unwrap() };
        match self.bug {
            Bug::SkipDecidesNothing if r.overlap == OverlapRule::Skip && alive > 0 => Some(skipped(alive)),
            Bug::CountsOrphans if r.overlap == OverlapRule::Skip && !others.is_empty() => {
                Some(skipped(others.len()))
            }
            _ => None,
        }
    }
}

#[async_trait]
impl RunLedger for Mutant {
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<LockName>,
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        self.ledger().register(group, jobs).await
    }

    async fn claim(&self, mut r: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        self.spoil(&mut r).await;
        if let Some(outcome) = self.instead(&r).await {
            return Ok(Reply::new(self.inner.server_now().unwrap(), outcome));
        }
        if self.bug == Bug::CheckThenClaim {
            tokio::task::yield_now().await;
        }
        let before = self.open_of(&r.job).await.into_iter().find(|open| open.run == r.run);
        let mut reply = self.ledger().claim(r).await?;
        match (self.bug, &mut reply.outcome) {
            (Bug::StartsDuplicates | Bug::CheckThenClaim, answer @ Claimed::Duplicate)
            | (Bug::StartsSuperseded, answer @ Claimed::Superseded)
            | (Bug::StartsRepeatedSkips, answer @ Claimed::Duplicate)
            | (Bug::IgnoresPauses, answer @ Claimed::Paused) => {
                *answer = Claimed::Claimed { token: TOKEN, attempt: 1 };
            }
            (Bug::AgainWithTheSameToken, Claimed::Claimed { token, .. }) => {
                *token = before.map_or(*token, |open| open.token);
            }
            (Bug::ConstantToken, Claimed::Claimed { token, .. }) => *token = TOKEN,
            _ => {}
        }
        Ok(reply)
    }

    async fn keep(
        &self,
        group: GroupName,
        mut runs: Vec<KeepRun>,
    ) -> Result<Reply<Vec<KeptRun>>, BackendError> {
        let open = self.ledger().open(group.clone()).await?.outcome;
        for item in &mut runs {
            let of_run = open.iter().find(|open| open.job == item.job && open.run == item.run);
            if let (Bug::KeepsForAnybody, Some(of_run)) = (self.bug, of_run) {
                item.claim = of_run.claim;
            }
        }
        let mut reply = self.ledger().keep(group, runs).await?;
        if self.bug == Bug::RevivesOrphans {
            reply.outcome.fill(KeptRun::Kept);
        }
        Ok(reply)
    }

    async fn end(&self, mut r: EndRequest) -> Result<Reply<Ended>, BackendError> {
        let open = self.open_of(&r.job).await.into_iter().find(|open| open.run == r.run);
        match (self.bug, open) {
            (Bug::EndsForAnybody, Some(open)) => r.claim = open.claim,
            (Bug::ForgetsEnds, None) => {
                let mut reply = self.ledger().end(r).await?;
                reply.outcome = Ended::Gone;
                return Ok(reply);
            }
            _ => {}
        }
        self.ledger().end(r).await
    }

    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.ledger().open(group).await
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        self.ledger().history(job, most).await
    }

    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        if let Order::Trigger(id) = order {
            let given = self.inner.server_now().unwrap();
            self.old.lock().unwrap().push(Trigger { given, id, job: job.name.clone() });
        }
        self.ledger().order(job, order).await
    }

    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        let mut reply = self.ledger().orders(group, known).await?;
        if let (Bug::TriggersAgain, Orders::Changed { triggers, .. }) = (self.bug, &mut reply.outcome) {
            triggers.clone_from(&self.old.lock().unwrap());
        }
        Ok(reply)
    }
}

super::caught! {
    repeat_that_is_another_claim: ForgetsClaims by claiming::a_repeated_claim_gets_its_first_answer;
    repeat_after_the_end_that_is_another_claim: ForgetsClaimsThatEnded
        by claiming::a_repeated_claim_gets_its_first_answer;
    skip_that_starts_when_it_is_repeated: StartsRepeatedSkips by overlapping::a_skip_that_is_repeated_is_a_skip;
    attempts_without_a_bound: AgainWithoutBound by again::attempts_are_bounded;
    attempt_after_another_than_the_last: AgainAfterAnyAttempt by again::attempts_are_bounded;
    attempt_beside_the_one_before: AgainBesideTheFirst by again::an_attempt_under_way_is_not_followed;
    attempt_that_joins_a_later_run: AgainDespiteOthers by again::an_old_attempt_does_not_join_a_later_run;
    attempt_with_the_token_of_the_one_before: AgainWithTheSameToken
        by again::a_failed_attempt_is_followed_by_another, again::an_orphan_is_followed_by_another;
    epoch_that_is_ignored: IgnoresEpochs by claiming::a_leader_of_an_older_epoch_is_fenced;
    claim_that_makes_a_watermark: ClaimMakesWatermark by claiming::a_job_without_a_watermark_is_not_claimed;
    instant_that_starts_twice: StartsDuplicates by claiming::a_due_instant_is_claimed_once;
    instant_before_the_watermark: StartsSuperseded by claiming::an_earlier_instant_is_superseded;
    instant_before_its_time: IgnoresTheClock by claiming::an_instant_that_has_not_come_is_early;
    overlap_that_is_ignored: IgnoresOverlap by overlapping::an_open_run_skips_the_next_for_good;
    skip_that_decides_nothing: SkipDecidesNothing by overlapping::an_open_run_skips_the_next_for_good;
    queue_that_decides: QueueDecides by overlapping::a_queued_run_waits_and_decides_nothing;
    replaced_run_that_hears_nothing: ReplacesSilently by overlapping::a_replaced_run_is_told;
    one_open_run_too_many: AllowsOneMore by overlapping::so_many_runs_are_open_and_no_more;
    orphan_in_the_way: CountsOrphans by overlapping::an_orphan_is_in_nobodys_way;
    waiting_run_that_is_no_run: ForgetsWaiting by again::a_failed_run_that_waits_is_open;
    token_of_a_claim_that_stands_still: ConstantToken by claiming::tokens_of_claims_grow;
    check_then_claim: CheckThenClaim by claiming::of_many_claims_at_once_one_starts;
    orphan_that_is_revived: RevivesOrphans by running::a_run_that_is_over_is_not_revived;
    keep_without_compare: KeepsForAnybody by running::only_its_claim_keeps_and_ends_a_run;
    end_without_compare: EndsForAnybody by running::only_its_claim_keeps_and_ends_a_run;
    end_that_is_forgotten: ForgetsEnds by running::an_end_that_is_sent_twice_is_recorded_once;
    pause_that_is_ignored: IgnoresPauses by ordering::a_paused_job_starts_nothing_and_makes_nothing_up;
    revision_that_is_ignored: IgnoresRevisions by ordering::a_changed_order_outdates_what_was_planned;
    trigger_that_waits_for_ever: TriggersAgain by ordering::an_order_to_trigger_that_comes_again_is_not_carried_out_again;
}
