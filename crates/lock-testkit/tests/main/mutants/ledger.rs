//! Correct run ledgers with one bug, each of which a named property must find.

use super::finds;
use async_trait::async_trait;
use lock_core::{BackendError, FencingToken, ServerTime, TestClock, backend::Reply};
use lock_ledger::{
    Attempt, ClaimId, ClaimRequest, Claimed, EndRequest, Ended, GroupName, HISTORY, JobId, KeepRun, KeptRun,
    MOST_OF_A_JOB, MemoryLedger, OpenRun, Order, Ordered, Orders, OverlapRule, Registered, Registration,
    RunLedger, RunOutcome, RunState, Then, Trigger,
};
use lock_testkit::conformance::{self, LedgerHarness};
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
    /// A repeat does not renew its lease.
    RepeatsWithoutLease,
    /// A repeat is granted though its lease is over.
    RepeatsTheDead,
    /// A skip that is repeated starts.
    StartsRepeatedSkips,
    /// A row of skips that is repeated is another one.
    SkipsAgain,
    /// A row of skips does not decide.
    SkipsWithoutWatermark,
    /// Each skip is an entry.
    NeverFolds,
    /// A changed schedule begins at the watermark of the job.
    IgnoresBeginnings,
    /// Each registration is a new beginning.
    BeginsAgain,
    ReadingRegisters,
    OneBudget,
    /// What is handed over is open until its lease ends.
    HandsOverLate,
    /// What is given back is over.
    GivesNothingBack,
    /// The next attempt of what was given back is a further one.
    CountsWhatNeverBegan,
    TriggersForEver,
    OneBoundForAllJobs,
    IgnoresCancel,
    IgnoresReset,
    AgainWithoutBound,
    AgainAfterAnyAttempt,
    AgainBesideTheFirst,
    AgainDespiteOthers,
    AgainWithTheSameToken,
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

impl LedgerHarness for Mutated {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        let inner = MemoryLedger::with_clock(Arc::new(TestClock::new()));
        Arc::new(Mutant { bug: self.0, inner, seen: Mutex::default(), old: Mutex::default() })
    }
}

#[derive(Debug)]
pub(super) struct Mutant {
    bug: Bug,
    inner: MemoryLedger,
    seen: Mutex<BTreeSet<ClaimId>>,
    /// Triggers that were ordered before.
    old: Mutex<Vec<Trigger>>,
}

/// The schedule with which the jobs of the suite are registered first.
const FIRST: u64 = 7;
const TOKEN: FencingToken = FencingToken::new(7);

impl Mutant {
    async fn open_of(&self, job: &JobId) -> Vec<OpenRun> {
        let open = self.inner.open(job.group.clone()).await.unwrap().outcome;
        open.into_iter().filter(|run| run.job == job.name).collect()
    }

    async fn end_of(&self, job: &JobId, run: &OpenRun, then: Then) {
        let (run, claim, detail) = (run.run, run.claim, String::new());
        let request = EndRequest {
            job: job.clone(),
            run,
            claim,
            outcome: RunOutcome::Failed,
            detail,
            then,
            history: HISTORY,
        };
        self.inner.end(request).await.unwrap();
    }

    /// What the bug makes of a claim before it is looked at.
    async fn spoil(&self, r: &mut ClaimRequest) {
        let open = self.open_of(&r.job).await;
        let same = open.iter().find(|open| open.run == r.run);
        let seen = !self.seen.lock().unwrap().insert(r.claim);
        match (self.bug, &mut r.again) {
            (Bug::ForgetsClaims, _) if seen => r.claim = ClaimId::random(),
            (Bug::StartsRepeatedSkips | Bug::SkipsAgain, _) if seen && same.is_none() => {
                r.claim = ClaimId::random();
            }
            (Bug::RepeatsWithoutLease, _) if seen => r.lease = Duration::from_millis(1),
            (Bug::AgainWithoutBound, Some(again)) => {
                (again.failures, again.orphanings) = (u32::MAX, u32::MAX)
            }
            (Bug::OneBudget, Some(again)) => {
                let both = again.failures.saturating_add(again.orphanings);
                (again.failures, again.orphanings) = (both, both);
            }
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
            (Bug::ClaimMakesWatermark, _) => {
                let registration = Registration { job: r.job.name.clone(), schedule: r.schedule };
                self.inner.register(r.job.group.clone(), vec![registration]).await.unwrap();
            }
            (Bug::IgnoresBeginnings, _) => r.schedule = FIRST,
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
            r.revision = match self.inner.orders(r.job.group.clone(), u64::MAX).await.unwrap().outcome {
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
        let same = self.open_of(&r.job).await.into_iter().find(|run| run.claim == r.claim);
        let skips = r.overlap == OverlapRule::Skip;
        match self.bug {
            Bug::SkipDecidesNothing if skips && alive > 0 => Some(Claimed::Skipped),
            Bug::CountsOrphans if skips && !others.is_empty() => Some(Claimed::Skipped),
            Bug::SkipsWithoutWatermark if r.skip.is_some() => Some(Claimed::Skipped),
            Bug::RepeatsTheDead => {
                same.map(|run| Claimed::Claimed { token: run.token, attempt: run.attempt, failures: 0 })
            }
            _ => None,
        }
    }
}

#[async_trait]
impl RunLedger for Mutant {
    fn server_now(&self, group: &GroupName) -> Option<ServerTime> {
        self.inner.server_now(group)
    }

    async fn register(
        &self,
        group: GroupName,
        mut jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        if self.bug == Bug::IgnoresBeginnings {
            jobs.iter_mut().for_each(|registration| registration.schedule = FIRST);
        }
        let mut reply = self.inner.register(group, jobs).await?;
        if self.bug == Bug::BeginsAgain {
            reply.outcome.iter_mut().for_each(|registered| registered.watermark = reply.now);
        }
        Ok(reply)
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError> {
        if self.bug == Bug::ReadingRegisters {
            self.inner.register(group.clone(), jobs.clone()).await?;
        }
        self.inner.watermarks(group, jobs).await
    }

    async fn claim(&self, mut r: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        self.spoil(&mut r).await;
        if let Some(outcome) = self.instead(&r).await {
            return Ok(Reply::new(self.inner.server_now(&r.job.group).unwrap(), outcome));
        }
        if self.bug == Bug::CheckThenClaim {
            tokio::task::yield_now().await;
        }
        let before = self.open_of(&r.job).await.into_iter().find(|open| open.run == r.run);
        let mut reply = self.inner.claim(r).await?;
        match (self.bug, &mut reply.outcome) {
            (Bug::SkipsAgain, answer @ Claimed::Duplicate) => *answer = Claimed::Busy { running: 1 },
            (Bug::StartsDuplicates | Bug::CheckThenClaim, answer @ Claimed::Duplicate)
            | (Bug::StartsSuperseded, answer @ Claimed::Superseded)
            | (Bug::StartsRepeatedSkips, answer @ Claimed::Duplicate)
            | (Bug::IgnoresTheClock, answer @ Claimed::Early { .. })
            | (Bug::TriggersForEver, answer @ Claimed::Expired)
            | (Bug::IgnoresPauses, answer @ Claimed::Paused) => {
                *answer = Claimed::Claimed { token: TOKEN, attempt: 1, failures: 0 };
            }
            (Bug::CountsWhatNeverBegan, Claimed::Claimed { attempt, .. }) => {
                *attempt += u32::from(before.is_some_and(|open| open.state == RunState::Released));
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
        let open = self.inner.open(group.clone()).await?.outcome;
        for item in &mut runs {
            let of_run = open.iter().find(|open| open.job == item.job && open.run == item.run);
            if let (Bug::KeepsForAnybody, Some(of_run)) = (self.bug, of_run) {
                item.claim = of_run.claim;
            }
        }
        let mut reply = self.inner.keep(group, runs).await?;
        if self.bug == Bug::RevivesOrphans {
            reply.outcome.fill(KeptRun::Kept);
        }
        Ok(reply)
    }

    async fn end(&self, mut r: EndRequest) -> Result<Reply<Ended>, BackendError> {
        let open = self.open_of(&r.job).await.into_iter().find(|open| open.run == r.run);
        match (self.bug, open) {
            (Bug::EndsForAnybody, Some(open)) => r.claim = open.claim,
            (Bug::HandsOverLate, _) if r.then == Then::HandOver => r.then = Then::Again,
            (Bug::GivesNothingBack, _) if r.then == Then::GiveBack => r.then = Then::Over,
            (Bug::ForgetsEnds, None) => {
                let mut reply = self.inner.end(r).await?;
                reply.outcome = Ended::Gone;
                return Ok(reply);
            }
            _ => {}
        }
        self.inner.end(r).await
    }

    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.inner.open(group).await
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        let mut reply = self.inner.history(job, most).await?;
        if self.bug == Bug::NeverFolds {
            let each = |entry: Attempt| vec![Attempt { count: 1, ..entry.clone() }; entry.count as usize];
            reply.outcome = reply.outcome.into_iter().flat_map(each).collect();
        }
        Ok(reply)
    }

    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        if let Order::Trigger { id, life } = order {
            let given = self.inner.server_now(&job.group).unwrap();
            self.old.lock().unwrap().push(Trigger { given, until: given + life, id, job: job.name.clone() });
        }
        match (self.bug, &order) {
            (Bug::IgnoresCancel, Order::CancelTrigger(_)) | (Bug::IgnoresReset, Order::Reset) => {
                let revision = self.old.lock().unwrap().len() as u64 + 1_000;
                let answer = Ordered::Accepted { revision };
                return Ok(Reply::new(self.inner.server_now(&job.group).unwrap(), answer));
            }
            (Bug::OneBoundForAllJobs, Order::Trigger { .. })
                if self.old.lock().unwrap().len() > MOST_OF_A_JOB =>
            {
                return Ok(Reply::new(self.inner.server_now(&job.group).unwrap(), Ordered::Full));
            }
            _ => self.inner.order(job, order).await,
        }
    }

    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        let mut reply = self.inner.orders(group, known).await?;
        if let (Bug::TriggersAgain, Orders::Changed { triggers, .. }) = (self.bug, &mut reply.outcome) {
            triggers.clone_from(&self.old.lock().unwrap());
        }
        Ok(reply)
    }
}

super::caught! {
    repeat_that_is_another_claim: ForgetsClaims
        by claiming::a_repeated_claim_is_granted_again_while_its_lease_lasts;
    repeat_that_does_not_renew: RepeatsWithoutLease by claiming::a_repeated_claim_renews_its_lease;
    repeat_of_a_lease_that_is_over: RepeatsTheDead
        by claiming::a_repeated_claim_is_granted_again_while_its_lease_lasts;
    row_that_is_skipped_twice: SkipsAgain by skipping::a_skip_row_that_is_repeated_is_one;
    row_that_decides_nothing: SkipsWithoutWatermark by skipping::a_skip_moves_the_watermark;
    skips_that_fill_the_history: NeverFolds by skipping::skips_that_follow_one_another_are_one_entry;
    schedule_that_begins_in_the_past: IgnoresBeginnings
        by claiming::a_changed_schedule_begins_when_it_is_registered;
    schedule_that_begins_again: BeginsAgain by claiming::a_job_begins_when_it_is_registered;
    read_that_registers: ReadingRegisters by claiming::a_watermark_that_is_read_is_not_made;
    one_budget_for_all: OneBudget by again::failures_and_orphanings_have_budgets_of_their_own;
    hand_over_that_waits_for_the_lease: HandsOverLate
        by again::an_attempt_that_is_handed_over_is_followed_at_once;
    attempt_that_is_not_given_back: GivesNothingBack by again::an_attempt_that_is_given_back_is_the_same_attempt;
    attempt_that_is_counted_and_never_began: CountsWhatNeverBegan
        by again::an_attempt_that_is_given_back_is_the_same_attempt;
    trigger_without_an_end: TriggersForEver by ordering::a_trigger_expires;
    one_bound_for_the_triggers_of_all_jobs: OneBoundForAllJobs by ordering::triggers_are_bounded;
    trigger_that_is_not_cancelled: IgnoresCancel by ordering::a_trigger_can_be_cancelled;
    reset_that_does_nothing: IgnoresReset by ordering::a_reset_ends_a_watermark_in_the_future;
    skip_that_starts_when_it_is_repeated: StartsRepeatedSkips by overlapping::a_skip_that_is_repeated_is_a_skip;
    attempts_without_a_bound: AgainWithoutBound by again::attempts_are_bounded;
    attempt_after_another_than_the_last: AgainAfterAnyAttempt by again::attempts_are_bounded;
    attempt_beside_the_one_before: AgainBesideTheFirst by again::an_attempt_under_way_is_not_followed;
    attempt_that_joins_a_later_run: AgainDespiteOthers by again::an_old_attempt_does_not_join_a_later_run;
    attempt_with_the_token_of_the_one_before: AgainWithTheSameToken
        by again::a_failed_attempt_is_followed_by_another, again::an_orphan_is_followed_by_another;
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
