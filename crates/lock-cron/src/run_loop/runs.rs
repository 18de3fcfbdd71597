//! The runs of this node: the planner's commands, claims and renewals, and the runs that other nodes have left.

use super::{Claimed, Effect, Phase, RunLoop, panicked};
use crate::{
    claim::{abandon, claim_due, end_unread, take_over},
    ledger_client::{Answer, RETRY_PAUSE},
    observer::CronEvent,
    plan::{ClaimOutcome, Command, Due},
    run,
    running::{CancelReason, HeldRun, RunKey},
};
use lock_core::{LockName, clock::Moment};
use lock_ledger::{JobCommand, OpenRun, PoolLimit, RenewRun, RunRenewal, RunState};
use std::{future::Future, time::Duration};
use tokio::time::Instant;

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
                        Effect::Done
                    };
                    self.spawn(close, Effect::Done);
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

    pub(super) fn due_claimed(&mut self, due: &Due, outcome: ClaimOutcome, claimed: Option<Claimed>) {
        let mut commands = Vec::new();
        self.claims -= 1;
        self.planner.claim_answered(self.now(), due, outcome, &mut commands);
        self.start(claimed);
        self.execute(commands);
    }

    /// Starts a run that was claimed, if any.
    fn start(&mut self, claimed: Option<Claimed>) {
        let Some((job, claimed)) = claimed.map(|claimed| *claimed) else { return };
        let node = self.shared.node.clone();
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

    pub(super) fn run_ended(&mut self, key: RunKey, declined: Option<String>) {
        self.shared.node.running.remove(&key);
        self.planner.run_ended(&key.job);
        if self.waits_for_pool && self.pool_of(&key.job).is_some() {
            self.timers.open_runs = Instant::now();
        }
        if let Some(reason) = declined {
            self.declined.insert(key, reason);
        }
    }

    pub(super) fn renew(&mut self) {
        let runs = self.shared.node.running.to_renew();
        if runs.is_empty() {
            return;
        }
        self.renewing = true;
        let (node, sent) = (self.shared.node.clone(), self.shared.node.ledger.moment());
        let failed = Effect::Renewed { sent, runs: runs.clone(), answer: Err(panicked()) };
        let renew = async move {
            let item = |HeldRun { key, held }: &HeldRun| RenewRun {
                job: key.job.clone(),
                run: key.run,
                claim: held.claim,
                lease: node.terms.lease,
            };
            let answer = node.ledger.renew(runs.iter().map(item).collect()).await;
            Effect::Renewed { sent, runs, answer }
        };
        self.spawn(renew, failed);
    }

    pub(super) fn renewed(&mut self, sent: Moment, runs: &[HeldRun], answer: Answer<Vec<RunRenewal>>) {
        self.renewing = false;
        match answer {
            Ok(answers) => self.shared.node.running.renewed(sent, runs, &answers),
            // A failed renewal is not a loss: there is time for another one.
            Err(error) => {
                self.timers.renewal = Instant::now() + RETRY_PAUSE;
                self.shared.node.store_failed(&error);
            }
        }
    }

    pub(super) fn read_open_runs(&mut self) {
        let node = self.shared.node.clone();
        let read = async move { Effect::OpenRunsRead(node.ledger.open_runs().await) };
        self.spawn(read, Effect::OpenRunsRead(Err(panicked())));
    }

    pub(super) fn open_runs_read(&mut self, answer: Answer<Vec<OpenRun>>) {
        let open = match answer {
            Ok(open) => open,
            Err(error) => {
                self.declined.look_again = Some(Instant::now() + LOOK_AGAIN);
                return self.shared.node.store_failed(&error);
            }
        };
        self.declined.retain(&open);
        // This node may have no room now, and its claim may fail.
        let again = open.iter().any(|left| self.may_read(left));
        self.declined.look_again = again.then(|| Instant::now() + LOOK_AGAIN);
        match self.leadership {
            Some(_) => self.take_over_orphans(open),
            None => self.take_over_declined(open),
        }
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

    pub(super) fn taken_over(&mut self, key: &RunKey, claimed: Option<Claimed>) {
        self.claims -= 1;
        self.taking_over.remove(key);
        self.start(claimed);
    }

    pub(super) fn report_unowned(&self, jobs: &[LockName]) {
        for job in jobs {
            self.shared.node.observers.notify(|group| CronEvent::Unowned { group, job });
        }
    }
}
