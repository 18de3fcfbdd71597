//! The execution of the planner's commands, and the resulting events.

use super::{
    effect::{Claimed, Effect},
    phase::Phase,
    state::RunLoop,
};
use crate::{
    backoff::RETRY_PAUSE,
    claim::{ClaimedRun, abandon, claim_due, end_unread, take_over},
    job::Job,
    kind,
    ledger_client::Answer,
    observer::CronEvent,
    plan::{ClaimOutcome, Command, Due, Peers, PlannedBackfill},
    run,
    running::{CancelReason, RunKey},
    time::UtcTime,
};
use lock_core::{
    LockName,
    backend::{BackendError, Reply},
};
use lock_ledger::{
    Backfill, FleetControls, HeartbeatReply, JobCommand, JobStatus, LiveNode, OpenRun, PoolLimit,
    RegisteredJob, Registration, RunId, RunState,
};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::Instant;

/// The time by which a watermark may be in the future before the server's clock is assumed to have
/// been ahead.
const MAX_WATERMARK_LEAD: Duration = Duration::from_secs(60);

/// The time for which a run that the leader cannot read waits for another node.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(5);

/// The time after which a node looks again at a declined run that it could not start.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Returns `true` if the last node that had a run could not read its payload.
fn was_declined(left: &OpenRun) -> bool {
    left.state == RunState::Released && left.declines > 0
}

impl RunLoop {
    pub(super) fn execute(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Claim(due) => self.claim(due),
                Command::CancelRunning(job) => {
                    self.shared.node.running.cancel(|key| key.job == job, CancelReason::Replaced);
                }
                Command::CloseBackfill { job, id } => {
                    let node = self.shared.node.clone();
                    let close = async move {
                        if let Err(error) = node.ledger.command(&job, JobCommand::CancelBackfill(id)).await {
                            node.store_failed(&error);
                        }
                        Effect::BackfillClosed
                    };
                    self.spawn(close, Effect::BackfillClosed);
                }
                Command::Register(job) => self.register(&[job], Duration::ZERO),
                // The known controls are outdated, even if the revision is unchanged.
                Command::ReadControls => self.read_all_controls(),
                Command::Skipped { job, reason, count } => {
                    let skipped = |group| CronEvent::Skipped { group, job: &job, reason, count };
                    self.shared.node.observers.notify(skipped);
                }
            }
        }
    }

    fn claim(&mut self, mut due: Due) {
        // Another definition may arrive before the reply. The run belongs to the definition from
        // which it was planned.
        let Some(job) = self.jobs.get(&due.request.job.name).cloned() else { return };
        let node = self.shared.node.clone();
        self.claims += 1;
        let failed = Effect::DueClaimed { due: due.clone(), outcome: ClaimOutcome::Failed, claimed: None };
        let claim = async move {
            let (outcome, claimed) = claim_due(&node, &mut due).await;
            Effect::DueClaimed { due, outcome, claimed: claimed.map(|run| Box::new((job, run))) }
        };
        self.spawn(claim, failed);
    }

    fn start(&mut self, job: &Arc<Job>, claimed: ClaimedRun) {
        let (node, job) = (self.shared.node.clone(), job.clone());
        let key = RunKey { job: job.name.clone(), run: claimed.id.run };
        let cancel = node.running.add(key.clone(), claimed.held());
        if self.phase == Phase::Ending {
            node.running.cancel(|of| *of == key, CancelReason::Shutdown);
        }
        // Also sent after a panic outside the body. Otherwise, the lease would be renewed forever, and no later run
        // could start.
        let ended = Effect::RunEnded { key: key.clone(), declined: None };
        let task = async move {
            let declined = run::run(&node, &job, claimed, cancel).await;
            Effect::RunEnded { key, declined }
        };
        self.spawn(task, ended);
    }

    pub(super) fn handle(&mut self, effect: Effect) {
        let node = self.shared.node.clone();
        let mut commands = Vec::new();
        match effect {
            Effect::Elected(elected) => self.elected(*elected),
            Effect::ElectionPanicked => self.elect(RETRY_PAUSE),
            Effect::Resigned => {
                self.resigning = false;
                self.elect(Duration::ZERO);
            }
            Effect::Registered { jobs, answer } => self.registered(jobs, answer),
            Effect::HeartbeatAnswered { asked, answer } => {
                self.heartbeat_in_flight = false;
                match answer {
                    Ok(reply) => self.heartbeat_answered(&asked, reply, &mut commands),
                    Err(error) => node.store_failed(&error),
                }
            }
            Effect::Described | Effect::BackfillClosed => {}
            Effect::Reinstated => self.reinstated(),
            Effect::InstancesRead(answer) => self.instances_read(answer),
            Effect::WatermarksRead { jobs, answer } => self.watermarks_read(jobs, answer),
            Effect::Left => self.leaving = false,
            Effect::OpenRunsRead(Ok(open)) => {
                self.declined.retain(&open);
                // This node may have no room now, and its claim may fail.
                let again = open.iter().any(|left| self.may_read(left));
                self.declined.look_again = again.then(|| Instant::now() + LOOK_AGAIN);
                match self.leadership {
                    Some(_) => self.take_over_orphans(open),
                    None => self.take_over_declined(open),
                }
            }
            Effect::OpenRunsRead(Err(error)) => {
                self.declined.look_again = Some(Instant::now() + LOOK_AGAIN);
                node.store_failed(&error);
            }
            Effect::SummaryRead(answer) => self.successes_read(answer),
            Effect::Renewed { sent, runs, answer } => {
                self.renewing = false;
                match answer {
                    Ok(answers) => node.running.renewed(sent, &runs, &answers),
                    // A failed renewal is not a loss: there is time for another one.
                    Err(error) => {
                        self.timers.renewal = Instant::now() + RETRY_PAUSE;
                        node.store_failed(&error);
                    }
                }
            }
            Effect::DueClaimed { due, outcome, claimed } => {
                self.claims -= 1;
                self.planner.claim_answered(self.now(), &due, outcome, &mut commands);
                if let Some((job, claimed)) = claimed.map(|claimed| *claimed) {
                    self.start(&job, claimed);
                }
            }
            Effect::TakenOver { key, claimed } => {
                self.claims -= 1;
                self.taking_over.remove(&key);
                if let Some((job, claimed)) = claimed.map(|claimed| *claimed) {
                    self.start(&job, claimed);
                }
            }
            Effect::RunEnded { key, declined } => {
                node.running.remove(&key);
                if let Some(reason) = declined {
                    self.declined.insert(key.clone(), reason);
                }
                self.planner.run_ended(&key.job);
                if self.waits_for_pool && self.pool_of(&key.job).is_some() {
                    self.timers.open_runs = Instant::now();
                }
            }
        }
        self.execute(commands);
    }

    fn heartbeat_answered(
        &mut self,
        asked: &[Registration],
        Reply { now: read_at, outcome, .. }: Reply<HeartbeatReply>,
        commands: &mut Vec<Command>,
    ) {
        let (this, jobs) = (self.shared.node.id, self.fingerprint);
        let is_peer = |node: &&LiveNode| node.id != this && node.jobs == jobs && node.room > 0;
        let others: Vec<_> = outcome.nodes.iter().filter(is_peer).map(|node| node.id).collect();
        let crowded = !others.is_empty() && self.planner.waits_for_room();
        let lease = self.shared.terms.leadership_lease;
        let leadership = self.leadership.as_mut();
        if leadership.is_some_and(|of| of.is_crowded(crowded, lease)) && self.phase == Phase::Running {
            self.resign();
        }
        self.planner.peers_read(Peers { this, others, read_at });
        for (registration, watermark) in asked.iter().zip(outcome.watermarks) {
            self.planner.observed(registration, watermark, read_at, commands);
        }
        self.controls_read(outcome.controls, commands);
        self.report_lost_jobs();
        self.compare_clocks();
        self.instances_seen(outcome.instances, &outcome.nodes, read_at);
        self.reinstate();
    }

    fn registered(&mut self, jobs: Vec<Registration>, answer: Answer<Vec<RegisteredJob>>) {
        let leads = self.leadership.is_some();
        match answer {
            Ok(answers) if leads => {
                let now = self.now();
                for (registration, answer) in jobs.iter().zip(answers) {
                    self.job_registered(registration, answer, now);
                }
                self.describe_jobs(&jobs);
            }
            Ok(_) => {}
            Err(error) => self.registration_failed(&error, jobs),
        }
    }

    /// Repeats a registration for the jobs that are waiting for it. A failed refresh is left to the next interval.
    pub(super) fn registration_failed(&mut self, error: &BackendError, jobs: Vec<Registration>) {
        self.shared.node.store_failed(error);
        let waits = |job: &LockName| self.planner.waits_for_watermark(job);
        let jobs: Vec<_> = jobs.into_iter().map(|r| r.job).filter(waits).collect();
        if self.leadership.is_some() && !jobs.is_empty() {
            self.register(&jobs, RETRY_PAUSE);
        }
    }

    fn job_registered(&mut self, registration: &Registration, answer: RegisteredJob, now: UtcTime) {
        let observers = &self.shared.node.observers;
        let (job, watermark) = (&registration.job, answer.watermark);
        let known = !self.registered.insert(job.clone());
        if known && answer.status == JobStatus::New {
            self.lost.jobs.push(job.clone());
        }
        let by = watermark.since(now);
        if by > MAX_WATERMARK_LEAD {
            observers.notify(|group| CronEvent::WatermarkAhead { group, job, by });
        }
        self.planner.registered(registration, watermark, now);
    }

    fn controls_read(&mut self, controls: FleetControls, commands: &mut Vec<Command>) {
        let FleetControls::Changed { revision, created, jobs, triggers, backfills, declined } = controls
        else {
            return;
        };
        self.known_revision = revision;
        // Runs of this node may have been cancelled.
        self.timers.renewal = Instant::now();
        self.controls = self.remembered(created, jobs.into_iter().collect());
        (self.triggers, self.backfills) = (triggers, backfills);
        for job in self.jobs.values() {
            let controls = self.controls.get(&job.name);
            if self.planner.controls_changed(&job.name, job.effective(controls), commands) {
                job.check_replacement(controls);
            }
        }
        if self.leadership.is_some() {
            let foreign = self.triggers.iter().filter(|trigger| !self.jobs.contains_key(&trigger.job));
            let unowned = self.unowned.see_triggers(foreign.cloned().collect(), self.now());
            self.report_unowned(&unowned);
            // The revision also rises when another node releases a run.
            self.timers.open_runs = Instant::now();
        } else if self.declined.is_news(declined) {
            self.read_open_runs();
        }
        for trigger in &self.triggers {
            self.planner.triggered(&trigger.job, RunId::Triggered(trigger.id));
        }
        for job in self.job_names() {
            self.plan_backfills(&job);
        }
    }

    /// Passes the backfills of a job to the planner.
    pub(super) fn plan_backfills(&mut self, job: &LockName) {
        let of_job = self.backfills.iter().filter(|backfill| backfill.job == *job);
        let readable = of_job.filter_map(|Backfill { id, schedule, dst, mark, last, .. }| {
            match kind::read_schedule(job, schedule, dst) {
                Ok(schedule) => {
                    Some(PlannedBackfill { id: *id, schedule, mark: *mark, last: *last })
                }
                Err(error) => {
                    // Another version of the program stored it, or its zone is unknown on this machine.
                    tracing::error!(cron.job = %job, %error, "failed to parse the backfill's schedule; skipping the backfill");
                    None
                }
            }
        });
        let readable = readable.collect();
        self.planner.backfills_read(job, readable);
    }

    fn take_over_orphans(&mut self, open: Vec<OpenRun>) {
        let (known, foreign): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|run| self.jobs.contains_key(&run.job));
        let (removed, foreign): (Vec<_>, Vec<_>) =
            foreign.into_iter().partition(|run| self.is_of_a_removed_instance(run));
        let unowned = self.unowned.see_open_runs(foreign);
        self.report_unowned(&unowned);
        if self.unowned.has_overdue_trigger(self.now()) {
            self.read_all_controls();
        }
        // The node of a run that waits may have left it with the rest of its back-off.
        let waiting = known.iter().filter(|run| run.state == RunState::Waiting);
        if let Some(remaining) = waiting.map(|run| run.remaining).min() {
            let past = Instant::now() + remaining + Duration::from_millis(1);
            self.timers.open_runs = self.timers.open_runs.min(past);
        }
        let is_left = |run: &OpenRun| match run.state {
            RunState::Orphaned | RunState::Released => true,
            RunState::Waiting => run.cancelled,
            _ => false,
        };
        self.waits_for_pool = false;
        for left in known.into_iter().filter(is_left) {
            if left.cancelled {
                self.abandon(left);
            } else if was_declined(&left) && self.declined.get(&left).is_some() {
                self.wait_for_others(left);
            } else {
                self.waits_for_pool |= self.pool_of(&left.job).is_some();
                self.take_over(left);
            }
        }
        for left in removed.into_iter().filter(is_left) {
            self.abandon(left);
        }
    }

    /// Starts the runs that other nodes declined, if this node has their jobs.
    fn take_over_declined(&mut self, open: Vec<OpenRun>) {
        for left in open {
            if self.may_read(&left) {
                self.take_over(left);
            }
        }
    }

    /// Returns `true` if other nodes declined a run, and this node may be able to read its payload.
    fn may_read(&self, left: &OpenRun) -> bool {
        was_declined(left)
            && !left.cancelled
            && self.jobs.contains_key(&left.job)
            && self.declined.get(left).is_none()
    }

    /// Leaves a run that this leader has declined to the other nodes for a while, and then ends it.
    fn wait_for_others(&mut self, left: OpenRun) {
        let Some((declined_at, reason)) = self.declined.get(&left) else { return };
        let until = *declined_at + WAIT_FOR_OTHERS;
        if Instant::now() < until {
            self.timers.open_runs = self.timers.open_runs.min(until);
            return;
        }
        let detail = format!("no node could read its payload: {reason}");
        let key = RunKey { job: left.job.clone(), run: left.run };
        let node = self.shared.node.clone();
        tracing::error!(cron.job = %left.job, cron.run = %left.run, "no node could read the payload of a run");
        self.settle(key, async move {
            end_unread(&node, &left, detail).await;
            None
        });
    }

    fn pool_of(&self, job: &LockName) -> Option<&PoolLimit> {
        self.jobs.get(job)?.terms.pool.as_ref()
    }

    fn take_over(&mut self, left: OpenRun) {
        let Some(job) = self.jobs.get(&left.job).cloned() else { return };
        let key = RunKey { job: left.job.clone(), run: left.run };
        // Left to a later check while its last attempt is still ending on this node, or while there is no room.
        if self.phase != Phase::Running || self.room() == 0 || self.shared.node.running.has(&key) {
            return;
        }
        let node = self.shared.node.clone();
        self.settle(key, async move {
            let claimed = take_over(&node, &job, &left).await;
            claimed.map(|run| Box::new((job, run)))
        });
    }

    /// Ends a cancelled run, or a run of a removed instance, whose node has left.
    fn abandon(&mut self, left: OpenRun) {
        let key = RunKey { job: left.job.clone(), run: left.run };
        let node = self.shared.node.clone();
        self.settle(key, async move {
            abandon(&node, &left).await;
            None
        });
    }

    /// Continues or ends a run whose node has left, unless a task is already doing so.
    fn settle(&mut self, key: RunKey, settled: impl Future<Output = Option<Claimed>> + Send + 'static) {
        if self.taking_over.insert(key.clone()) {
            self.claims += 1;
            let failed = Effect::TakenOver { key: key.clone(), claimed: None };
            self.spawn(async move { Effect::TakenOver { key, claimed: settled.await } }, failed);
        }
    }

    pub(super) fn report_unowned(&self, jobs: &[LockName]) {
        for job in jobs {
            self.shared.node.observers.notify(|group| CronEvent::Unowned { group, job });
        }
    }
}
