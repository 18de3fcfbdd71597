//! Run ledgers with one planted bug each, which a named property must find.

use super::{are_all_of, finds};
use async_trait::async_trait;
use lock_core::{
    FencingToken, LockName,
    backend::{BackendError, Reply},
    clock::{TestClock, UtcTime},
};
use lock_ledger::{
    AddReply, AddRequest, AfterAttempt, Attempt, ClaimId, ClaimReply, ClaimRequest, CommandReply,
    DEFAULT_HISTORY, EndReply, EndRequest, FleetControls, GroupName, GroupSummary, HeartbeatReply,
    HeartbeatRequest, InstanceDetail, Instances, InstancesFrom, JobCommand, JobControls, JobDescription,
    JobId, MAX_TRIGGERS_PER_JOB, MemoryLedger, OpenRun, OverlapRule, PauseNote, RegisteredJob, Registration,
    Removal, RemoveReply, RenewRun, RunLedger, RunOutcome, RunRenewal, RunState, Skip, Trigger,
};
use lock_testkit::{
    conformance::{self, LedgerHarness},
    planted::{
        Checker,
        PlantedBug::{self, *},
    },
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

struct Buggy(Option<PlantedBug>);

impl LedgerHarness for Buggy {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        let inner = MemoryLedger::with_clock(Arc::new(TestClock::new()));
        Arc::new(BuggyLedger { bug: self.0, inner, seen: Mutex::default(), old: Mutex::default() })
    }
}

#[derive(Debug)]
pub(super) struct BuggyLedger {
    bug: Option<PlantedBug>,
    inner: MemoryLedger,
    seen: Mutex<BTreeSet<ClaimId>>,
    /// Triggers from earlier commands.
    old: Mutex<Vec<Trigger>>,
}

/// The fingerprint of the schedule with which the suite first registers its jobs.
const FIRST: u64 = 7;
const TOKEN: FencingToken = FencingToken::new(7);

impl BuggyLedger {
    async fn open_of(&self, job: &JobId) -> Vec<OpenRun> {
        let open = self.inner.open_runs(job.group.clone()).await.unwrap().outcome;
        open.into_iter().filter(|run| run.job == job.name).collect()
    }

    async fn end_of(&self, job: &JobId, run: &OpenRun, then: AfterAttempt) {
        let (run, claim, detail) = (run.run, run.claim, String::new());
        let request = EndRequest {
            job: job.clone(),
            run,
            claim,
            outcome: RunOutcome::Failed,
            detail,
            then,
            history: DEFAULT_HISTORY,
        };
        self.inner.end(request).await.unwrap();
    }

    /// Applies the bug to a claim before it is sent.
    async fn spoil(&self, r: &mut ClaimRequest) {
        let open = self.open_of(&r.job).await;
        let same = open.iter().find(|open| open.run == r.run);
        let seen = !self.seen.lock().unwrap().insert(r.claim);
        match (self.bug, &mut r.retry_of) {
            (Some(ForgetsClaims), _) if seen => r.claim = ClaimId::random(),
            (Some(StartsRepeatedSkip | CountsRepeatedSkipTwice), _) if seen && same.is_none() => {
                r.claim = ClaimId::random();
            }
            (Some(RepeatWithoutRenewal), _) if seen => r.lease = Duration::from_millis(1),
            (Some(RetriesWithoutBound), Some(retry_of)) => {
                (retry_of.failures, retry_of.orphanings) = (u32::MAX, u32::MAX)
            }
            (Some(SharedRetryBudget), Some(retry_of)) => {
                let both = retry_of.failures.saturating_add(retry_of.orphanings);
                (retry_of.failures, retry_of.orphanings) = (both, both);
            }
            (Some(RetriesAnyAttempt), Some(retry_of)) => {
                retry_of.claim = same.map_or(retry_of.claim, |run| run.claim)
            }
            (Some(RetriesRunningAttempt), Some(_)) => {
                if let Some(run) = same {
                    self.end_of(&r.job, run, AfterAttempt::Retry).await;
                }
            }
            (Some(RetryIgnoresOthers), Some(_)) | (Some(IgnoresOverlap), _) => {
                r.overlap = OverlapRule::Allow { max: u32::MAX };
            }
            (Some(ClaimMakesWatermark), _) => {
                let registration = Registration { job: r.job.name.clone(), schedule: r.schedule };
                self.inner.register(r.job.group.clone(), vec![registration]).await.unwrap();
            }
            (Some(IgnoresScheduleStart), _) => r.schedule = FIRST,
            (Some(IgnoresUndecided), _) => r.after = None,
            (Some(IgnoresGrace), _) => r.not_after = None,
            (Some(SkipsStartedTimes), _) => r.skip.iter_mut().for_each(|skip| skip.first = r.run),
            (Some(QueueDecides), _) if matches!(r.overlap, OverlapRule::Queue { .. }) => {
                r.overlap = OverlapRule::Skip;
            }
            (Some(ReplacesSilently), _) if r.overlap == OverlapRule::Replace => {
                r.overlap = OverlapRule::Queue { max: 1 }
            }
            (Some(ForgetsWaiting), _) => {
                for run in open.iter().filter(|run| run.state == RunState::Waiting && run.run != r.run) {
                    self.end_of(&r.job, run, AfterAttempt::Finish).await;
                }
            }
            (Some(IgnoresPools), _) | (Some(RetriesIgnorePool), Some(_)) => r.pool = None,
            _ => {}
        }
        self.spoil_pool(r).await;
        if let (Some(AllowsOneMore), OverlapRule::Allow { max }) = (self.bug, &mut r.overlap) {
            *max = max.saturating_add(1);
        }
        if self.bug == Some(IgnoresDefinitions)
            && let Instances::All { instances, .. } = self
                .inner
                .instances(r.job.group.clone(), InstancesFrom::Revision(u64::MAX))
                .await
                .unwrap()
                .outcome
        {
            let of_job = instances.iter().find(|instance| instance.name == r.job.name);
            r.definition = of_job.map_or(r.definition, |instance| instance.revision);
        }
        if self.bug == Some(IgnoresRevisions) || self.bug == Some(IgnoresPauses) {
            r.revision = match self.inner.controls(r.job.group.clone(), u64::MAX).await.unwrap().outcome {
                FleetControls::Changed { jobs, .. } => {
                    let of_job = jobs.iter().find(|(name, _)| *name == r.job.name);
                    of_job.map_or(0, |(_, controls)| controls.revision)
                }
                _ => 0,
            };
        }
    }

    /// Applies the bug to a claim's pool.
    async fn spoil_pool(&self, r: &mut ClaimRequest) {
        let open = self.inner.open_runs(r.job.group.clone()).await.unwrap().outcome;
        let Some(pool) = &mut r.pool else { return };
        let in_state = |state| {
            let counted = |run: &&OpenRun| run.pool.as_ref() == Some(&pool.name) && run.state == state;
            u32::try_from(open.iter().filter(counted).count()).unwrap()
        };
        match self.bug {
            Some(PoolOfOneJob) => pool.name = LockName::new(format!("{}-{}", pool.name, r.job.name)).unwrap(),
            Some(PoolAllowsOneMore) => pool.max += 1,
            Some(OrphansFillPool) => pool.max = pool.max.saturating_sub(in_state(RunState::Orphaned)),
            Some(WaitingLeavesPool) => pool.max += in_state(RunState::Waiting),
            _ => {}
        }
    }

    /// Returns the reply that the bug substitutes for the ledger's, if any.
    async fn instead(&self, r: &ClaimRequest) -> Option<ClaimReply> {
        let others: Vec<_> = self.open_of(&r.job).await.into_iter().filter(|run| run.run != r.run).collect();
        let alive = others.iter().filter(|run| run.state != RunState::Orphaned).count();
        let same = self.open_of(&r.job).await.into_iter().find(|run| run.claim == r.claim);
        let skips = r.overlap == OverlapRule::Skip;
        match self.bug {
            Some(SkipDecidesNothing) if skips && alive > 0 => Some(ClaimReply::Skipped),
            Some(CountsOrphans) if skips && !others.is_empty() => Some(ClaimReply::Skipped),
            Some(SkipKeepsWatermark) if r.skip.is_some() => Some(ClaimReply::Skipped),
            Some(GrantsExpiredRepeat) => same.map(|run| ClaimReply::Claimed {
                token: run.token,
                attempt: run.attempt,
                failures: 0,
                payload: None,
            }),
            _ => None,
        }
    }
}

#[async_trait]
impl RunLedger for BuggyLedger {
    fn server_now(&self, group: &GroupName) -> Option<UtcTime> {
        self.inner.server_now(group)
    }

    async fn register(
        &self,
        group: GroupName,
        mut jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError> {
        if self.bug == Some(IgnoresScheduleStart) {
            jobs.iter_mut().for_each(|registration| registration.schedule = FIRST);
        }
        let mut reply = self.inner.register(group, jobs).await?;
        if self.bug == Some(RegistrationRestartsJob) {
            reply.outcome.iter_mut().for_each(|registered| registered.watermark = reply.now);
        }
        Ok(reply)
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError> {
        if self.bug == Some(ReadRegisters) {
            self.inner.register(group.clone(), jobs.clone()).await?;
        }
        self.inner.watermarks(group, jobs).await
    }

    async fn claim(&self, mut r: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError> {
        self.spoil(&mut r).await;
        if let Some(outcome) = self.instead(&r).await {
            return Ok(Reply::new(self.inner.server_now(&r.job.group).unwrap(), outcome));
        }
        if self.bug == Some(CheckThenClaim) {
            tokio::task::yield_now().await;
        }
        let before = self.open_of(&r.job).await.into_iter().find(|open| open.run == r.run);
        let request = r.clone();
        let is_backfill = r.run.backfill().is_some();
        let mut reply = self.inner.claim(r).await?;
        match (self.bug, &mut reply.outcome) {
            (Some(CountsRepeatedSkipTwice), answer @ ClaimReply::Duplicate) => {
                *answer = ClaimReply::Busy { running: 1 }
            }
            (Some(StartsDuplicates | CheckThenClaim), answer @ ClaimReply::Duplicate)
            | (Some(StartsSuperseded), answer @ ClaimReply::Superseded)
            | (Some(StartsRepeatedSkip), answer @ ClaimReply::Duplicate)
            | (Some(StartsEarly), answer @ ClaimReply::Early { .. })
            | (Some(TriggerNeverExpires), answer @ ClaimReply::Expired)
            | (Some(IgnoresPauses), answer @ ClaimReply::Paused) => {
                *answer = ClaimReply::Claimed { token: TOKEN, attempt: 1, failures: 0, payload: None };
            }
            (Some(BackfillsPausedJobs), answer @ ClaimReply::Paused) if is_backfill => {
                *answer = ClaimReply::Claimed { token: TOKEN, attempt: 1, failures: 0, payload: None };
            }
            (Some(SkipsBackfill), answer @ ClaimReply::Busy { .. }) if is_backfill => {
                *answer = ClaimReply::Skipped;
            }
            (Some(CountsReleasedAttempt), ClaimReply::Claimed { attempt, .. }) => {
                *attempt += u32::from(before.is_some_and(|open| open.state == RunState::Released));
            }
            (Some(RetryReusesToken), ClaimReply::Claimed { token, .. }) => {
                *token = before.map_or(*token, |open| open.token);
            }
            (Some(RetryForgetsPayload), ClaimReply::Claimed { attempt: 2.., payload, .. }) => *payload = None,
            (Some(ConstantRunToken), ClaimReply::Claimed { token, .. }) => *token = TOKEN,
            (Some(FullPoolDecides), ClaimReply::PoolFull { .. }) => {
                let skip = Skip { first: request.run, count: 1, detail: "the pool was full".to_owned() };
                self.inner.claim(ClaimRequest { skip: Some(skip), ..request }).await?;
            }
            _ => {}
        }
        Ok(reply)
    }

    async fn renew(
        &self,
        group: GroupName,
        mut runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError> {
        let open = self.inner.open_runs(group.clone()).await?.outcome;
        for item in &mut runs {
            let of_run = open.iter().find(|open| open.job == item.job && open.run == item.run);
            if let (Some(RenewsRunWithoutCompare), Some(of_run)) = (self.bug, of_run) {
                item.claim = of_run.claim;
            }
        }
        let mut reply = self.inner.renew(group, runs).await?;
        if self.bug == Some(CancelsSilently) {
            let cancelled = reply.outcome.iter_mut().filter(|renewal| **renewal == RunRenewal::Cancelled);
            cancelled.for_each(|renewal| *renewal = RunRenewal::Renewed);
        }
        if self.bug == Some(RevivesOrphans) {
            reply.outcome.fill(RunRenewal::Renewed);
        }
        Ok(reply)
    }

    async fn end(&self, mut r: EndRequest) -> Result<Reply<EndReply>, BackendError> {
        let open = self.open_of(&r.job).await.into_iter().find(|open| open.run == r.run);
        match (self.bug, open) {
            (Some(EndsRunWithoutCompare), Some(open)) => r.claim = open.claim,
            (Some(HandsOverLate), _) if r.then == AfterAttempt::Reassign => r.then = AfterAttempt::Retry,
            (Some(ForgetsDelay), _) if matches!(r.then, AfterAttempt::Postpone { .. }) => {
                r.then = AfterAttempt::Requeue;
            }
            (Some(GiveBackEndsRun), _) if r.then == AfterAttempt::Requeue => r.then = AfterAttempt::Finish,
            (Some(ForgetsEnds), None) => {
                let mut reply = self.inner.end(r).await?;
                reply.outcome = EndReply::Gone;
                return Ok(reply);
            }
            _ => {}
        }
        self.inner.end(r).await
    }

    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        self.inner.open_runs(group).await
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        let mut reply = self.inner.history(job, most).await?;
        if self.bug == Some(NeverFoldsSkips) {
            let each = |entry: Attempt| vec![Attempt { count: 1, ..entry.clone() }; entry.count as usize];
            reply.outcome = reply.outcome.into_iter().flat_map(each).collect();
        }
        Ok(reply)
    }

    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError> {
        if let JobCommand::Trigger { id, life, .. } = command {
            let given = self.inner.server_now(&job.group).unwrap();
            self.old.lock().unwrap().push(Trigger { given, until: given + life, id, job: job.name.clone() });
        }
        match (self.bug, &command) {
            (Some(IgnoresTriggerCancel), JobCommand::CancelTrigger(_))
            | (Some(IgnoresReset), JobCommand::Reset) => {
                let now = self.inner.server_now(&job.group).unwrap();
                let revision = now.as_millis() + 1_000_000;
                return Ok(Reply::new(now, CommandReply::Accepted { revision }));
            }
            (Some(ReinstatesOldControls), JobCommand::Reinstate(controls)) => {
                let newer = JobControls { revision: u64::MAX / 2, ..controls.clone() };
                self.inner.command(job, JobCommand::Reinstate(newer)).await
            }
            (Some(RestartsRevisions), _) => {
                let mut reply = self.inner.command(job, command).await?;
                if let CommandReply::Accepted { revision } = &mut reply.outcome {
                    *revision -= TestClock::WALL_AT_START.as_millis();
                }
                return Ok(reply);
            }
            (Some(SharedTriggerBound), JobCommand::Trigger { .. })
                if self.old.lock().unwrap().len() > MAX_TRIGGERS_PER_JOB =>
            {
                return Ok(Reply::new(self.inner.server_now(&job.group).unwrap(), CommandReply::Full));
            }
            (Some(KeepsWithdrawnPayload), JobCommand::CancelTrigger(_)) => {
                let now = self.inner.server_now(&job.group).unwrap();
                Ok(Reply::new(now, CommandReply::Accepted { revision: u64::MAX }))
            }
            (Some(IgnoresBackfillCancel), JobCommand::CancelBackfill(_)) => {
                let now = self.inner.server_now(&job.group).unwrap();
                Ok(Reply::new(now, CommandReply::Accepted { revision: u64::MAX }))
            }
            (Some(UnboundedBackfills), JobCommand::Backfill(_)) => {
                let mut reply = self.inner.command(job, command).await?;
                if reply.outcome == CommandReply::Full {
                    reply.outcome = CommandReply::Accepted { revision: u64::MAX };
                }
                Ok(reply)
            }
            (Some(CancelsAllRuns), JobCommand::Cancel { run: Some(_) }) => {
                self.inner.command(job, JobCommand::Cancel { run: None }).await
            }
            (Some(RetriesCancelled), JobCommand::Cancel { .. }) => {
                let now = self.inner.server_now(&job.group).unwrap();
                Ok(Reply::new(now, CommandReply::Accepted { revision: u64::MAX }))
            }
            (Some(UnboundedPayloads), JobCommand::Trigger { id, life, payload: Some(_) }) => {
                let without = JobCommand::Trigger { id: *id, life: *life, payload: None };
                self.inner.command(job, without).await
            }
            _ => self.inner.command(job, command).await,
        }
    }

    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError> {
        let mut reply = self.inner.controls(group, known).await?;
        if let (Some(ForgetsPauseNotes), FleetControls::Changed { jobs, .. }) = (self.bug, &mut reply.outcome)
        {
            jobs.iter_mut().for_each(|(_, controls)| controls.note = PauseNote::default());
        }
        if let (Some(ForgetsBackfilled), FleetControls::Changed { backfills, .. }) =
            (self.bug, &mut reply.outcome)
        {
            backfills.iter_mut().for_each(|backfill| backfill.done = 0);
        }
        if let (Some(RepeatsTriggers), FleetControls::Changed { triggers, .. }) =
            (self.bug, &mut reply.outcome)
        {
            triggers.clone_from(&self.old.lock().unwrap());
        }
        Ok(reply)
    }

    async fn add(&self, r: AddRequest) -> Result<Reply<AddReply>, BackendError> {
        if self.bug == Some(RepeatedAddRestarts) {
            self.inner.remove(r.job.clone(), Removal::KeepRecord).await?;
        }
        let reply = self.inner.add(r.clone()).await?;
        if self.bug == Some(OnceRunsAgain) && reply.outcome == AddReply::AlreadyRun {
            self.inner.remove(r.job.clone(), Removal::Forget).await?;
            return self.inner.add(r).await;
        }
        Ok(reply)
    }

    async fn remove(&self, job: JobId, mut removal: Removal) -> Result<Reply<RemoveReply>, BackendError> {
        if self.bug == Some(ForgetKeepsRecord) {
            removal = Removal::KeepRecord;
        }
        self.inner.remove(job, removal).await
    }

    async fn instance(&self, job: JobId) -> Result<Reply<Option<InstanceDetail>>, BackendError> {
        self.inner.instance(job).await
    }

    async fn instances(
        &self,
        group: GroupName,
        from: InstancesFrom,
    ) -> Result<Reply<Instances>, BackendError> {
        let mut reply = self.inner.instances(group, from).await?;
        if let (Some(HidesRemovals), Instances::Changed { removed, .. }) = (self.bug, &mut reply.outcome) {
            removed.clear();
        }
        Ok(reply)
    }

    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError> {
        self.inner.describe(group, jobs).await
    }

    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError> {
        let mut reply = self.inner.summary(group).await?;
        for job in &mut reply.outcome.jobs {
            match self.bug {
                Some(ForgetsDescriptions) => job.schedule.clear(),
                Some(ForgetsLastSuccess) => job.last_success = None,
                Some(RestartsFailures) => {
                    job.failing_since = job.failing_since.and(job.last.as_ref()).map(|last| last.ended);
                }
                _ => {}
            }
        }
        Ok(reply)
    }

    async fn heartbeat(&self, mut r: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError> {
        if self.bug == Some(DeadNodesStay) && !r.lease.is_zero() {
            r.lease = Duration::from_secs(3600);
        }
        let mut reply = self.inner.heartbeat(r).await?;
        if self.bug == Some(HeartbeatHidesControls) {
            reply.outcome.controls = FleetControls::Unchanged;
        }
        Ok(reply)
    }
}

#[test]
fn every_bug_has_a_test() {
    are_all_of(Checker::LedgerConformance, CAUGHT);
}

super::caught! {
    repeat_that_is_another_claim: ForgetsClaims
        by claim::a_repeated_claim_is_granted_again_while_its_lease_lasts;
    repeat_that_does_not_renew: RepeatWithoutRenewal by claim::a_repeated_claim_renews_its_lease;
    repeat_of_a_lease_that_is_over: GrantsExpiredRepeat
        by claim::a_repeated_claim_is_granted_again_while_its_lease_lasts;
    row_that_is_skipped_twice: CountsRepeatedSkipTwice by skip::a_repeated_row_counts_once;
    row_that_decides_nothing: SkipKeepsWatermark by skip::a_skip_moves_the_watermark;
    row_with_a_run_that_started: SkipsStartedTimes by skip::a_partly_decided_series_is_refused;
    skips_that_fill_the_history: NeverFoldsSkips by skip::adjacent_skips_are_one_entry;
    schedule_that_begins_in_the_past: IgnoresScheduleStart
        by claim::a_changed_schedule_begins_when_it_is_registered;
    schedule_that_begins_again: RegistrationRestartsJob by claim::a_job_begins_when_it_is_registered;
    read_that_registers: ReadRegisters by claim::reading_a_watermark_makes_none;
    one_budget_for_all: SharedRetryBudget by retry::failures_and_orphanings_have_separate_budgets;
    hand_over_that_waits_for_the_lease: HandsOverLate
        by retry::a_reassigned_attempt_is_followed_at_once;
    back_off_that_is_forgotten: ForgetsDelay by retry::a_postponed_run_is_followed_after_its_delay;
    attempt_that_is_not_given_back: GiveBackEndsRun by retry::a_requeued_attempt_is_the_same_attempt;
    attempt_that_is_counted_and_never_began: CountsReleasedAttempt
        by retry::a_requeued_attempt_is_the_same_attempt;
    trigger_without_an_end: TriggerNeverExpires by control::a_trigger_expires;
    one_bound_for_the_triggers_of_all_jobs: SharedTriggerBound by control::triggers_are_bounded;
    trigger_that_is_not_cancelled: IgnoresTriggerCancel by control::a_trigger_can_be_cancelled;
    reset_that_does_nothing: IgnoresReset by control::a_reset_ends_a_watermark_in_the_future;
    skip_that_starts_when_it_is_repeated: StartsRepeatedSkip by overlap::a_repeated_skip_stays_a_skip;
    attempts_without_a_bound: RetriesWithoutBound by retry::attempts_are_bounded;
    attempt_after_another_than_the_last: RetriesAnyAttempt by retry::attempts_are_bounded;
    attempt_beside_the_one_before: RetriesRunningAttempt by retry::an_attempt_under_way_is_not_followed;
    attempt_that_joins_a_later_run: RetryIgnoresOthers by retry::an_old_attempt_does_not_join_a_later_run;
    attempt_with_the_token_of_the_one_before: RetryReusesToken
        by retry::a_failed_attempt_is_followed_by_another, retry::an_orphan_is_followed_by_another;
    claim_that_makes_a_watermark: ClaimMakesWatermark by claim::a_job_without_a_watermark_is_not_claimed;
    instant_that_starts_twice: StartsDuplicates by claim::a_due_instant_is_claimed_once;
    instant_before_the_watermark: StartsSuperseded by claim::an_earlier_instant_is_superseded;
    instant_before_its_time: StartsEarly by claim::a_future_instant_is_early;
    overlap_that_is_ignored: IgnoresOverlap by overlap::an_open_run_skips_the_next_for_good;
    skip_that_decides_nothing: SkipDecidesNothing by overlap::an_open_run_skips_the_next_for_good;
    queue_that_decides: QueueDecides by overlap::a_queued_run_waits_and_decides_nothing;
    replaced_run_that_hears_nothing: ReplacesSilently by overlap::a_replaced_run_is_asked_to_end;
    one_open_run_too_many: AllowsOneMore by overlap::open_runs_are_bounded;
    orphan_in_the_way: CountsOrphans by overlap::an_orphan_does_not_overlap;
    waiting_run_that_is_no_run: ForgetsWaiting by retry::a_waiting_run_is_open;
    pool_that_is_ignored: IgnoresPools by pool::open_runs_of_a_pool_are_bounded;
    pool_of_one_job: PoolOfOneJob by pool::open_runs_of_a_pool_are_bounded;
    one_run_too_many_in_a_pool: PoolAllowsOneMore by pool::open_runs_of_a_pool_are_bounded;
    attempt_that_ignores_the_pool: RetriesIgnorePool
        by pool::an_orphan_takes_no_place, pool::a_released_run_leaves_its_place;
    orphan_in_the_pool: OrphansFillPool by pool::an_orphan_takes_no_place;
    waiting_run_outside_of_the_pool: WaitingLeavesPool by pool::a_waiting_run_keeps_its_place;
    full_pool_that_decides: FullPoolDecides by pool::a_full_pool_decides_nothing;
    token_of_a_claim_that_stands_still: ConstantRunToken by claim::tokens_of_claims_grow;
    check_then_claim: CheckThenClaim by claim::one_of_many_claims_starts;
    orphan_that_is_revived: RevivesOrphans by run::an_expired_run_is_not_revived;
    keep_without_compare: RenewsRunWithoutCompare by run::only_its_claim_renews_and_ends_a_run;
    end_without_compare: EndsRunWithoutCompare by run::only_its_claim_renews_and_ends_a_run;
    end_that_is_forgotten: ForgetsEnds by run::a_repeated_end_is_recorded_once;
    pause_that_is_ignored: IgnoresPauses by control::a_paused_job_starts_and_makes_up_nothing;
    revision_that_is_ignored: IgnoresRevisions by control::changed_controls_outdate_a_claim;
    revision_that_begins_at_one: RestartsRevisions by control::a_revision_is_at_least_the_time;
    claim_that_overtakes_an_instant: IgnoresUndecided
        by claim::a_claim_after_an_undecided_instant_is_behind;
    claim_after_its_grace: IgnoresGrace by claim::a_late_claim_starts_nothing;
    node_that_never_dies: DeadNodesStay by heartbeat::a_node_without_heartbeats_is_forgotten;
    controls_that_no_heartbeat_reads: HeartbeatHidesControls
        by heartbeat::a_heartbeat_reads_controls_and_watermarks;
    definition_that_is_ignored: IgnoresDefinitions by instance::a_changed_definition_outdates_a_claim;
    add_that_starts_again: RepeatedAddRestarts by instance::a_repeated_add_changes_nothing;
    record_that_is_not_forgotten: ForgetKeepsRecord by instance::a_forgotten_instance_leaves_nothing;
    removal_that_is_not_read: HidesRemovals by instance::a_reader_learns_what_has_changed;
    run_that_is_added_again: OnceRunsAgain by once::a_run_keeps_its_name_for_a_while;
    old_controls_that_come_back: ReinstatesOldControls by control::reinstated_controls_win_by_their_revision;
    description_that_is_lost: ForgetsDescriptions by summary::a_registered_job_is_described;
    success_that_is_lost: ForgetsLastSuccess by summary::a_summary_has_the_latest_outcomes;
    failure_that_begins_again: RestartsFailures by summary::a_summary_has_the_latest_outcomes;
    pause_without_its_note: ForgetsPauseNotes by control::a_pause_keeps_its_note;
    next_attempt_without_the_payload: RetryForgetsPayload by payload::every_attempt_has_the_payload;
    payload_that_is_kept: KeepsWithdrawnPayload by payload::a_withdrawn_trigger_leaves_no_payload;
    payloads_without_a_bound: UnboundedPayloads by payload::waiting_payloads_are_bounded;
    progress_that_is_lost: ForgetsBackfilled
        by backfill::a_backfill_runs_in_order_and_decides_no_instant;
    backfill_that_is_skipped: SkipsBackfill by backfill::a_backfill_waits_for_other_runs;
    backfill_of_a_paused_job: BackfillsPausedJobs by backfill::a_paused_job_runs_no_backfill;
    backfill_that_is_not_cancelled: IgnoresBackfillCancel by backfill::a_backfill_can_be_cancelled;
    backfills_without_a_bound: UnboundedBackfills by backfill::backfills_are_bounded;
    run_that_hears_of_no_cancel: CancelsSilently by cancel::a_cancelled_run_is_asked_to_end;
    run_that_is_cancelled_with_another: CancelsAllRuns by cancel::only_the_named_run_is_cancelled;
    cancelled_run_that_is_retried: RetriesCancelled by cancel::a_cancelled_run_gets_no_further_attempt;
    trigger_that_waits_for_ever: RepeatsTriggers by control::a_repeated_trigger_starts_once;
}
