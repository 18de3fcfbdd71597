//! What the planner wants done, and what became of it.

use super::{Drive, Effect, Phase};
use crate::{
    backoff::RETRY_PAUSE,
    job::Job,
    observer::CronEvent,
    options::Scope,
    plan::{ClaimOutcome, Command, Due, EffectiveControls},
    run,
    running::Why,
    scheduler::effective,
    start::{Granted, start, take_over},
};
use lock_core::{FencingToken, LockError, LockErrorKind, LockGuard, LockName};
use lock_ledger::{ClaimId, FleetControls, JobControls, OpenRun, RunId, RunState};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

impl Drive {
    pub(super) fn obey(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Claim(due) => self.claim(due),
                Command::StartHere(due) => {
                    let Some(job) = self.jobs.get(&due.job).cloned() else { continue };
                    let granted = Granted {
                        run: due.run,
                        claim: ClaimId::random(),
                        token: FencingToken::new(0),
                        attempt: 1,
                        failures: 0,
                        catch_up: due.catch_up,
                        started: self.now(),
                        hold: None,
                    };
                    self.start(&job, granted);
                }
                Command::CancelRunning(job) => {
                    self.inner.node.running.cancel(|name, _| *name == job, Why::Replaced)
                }
                Command::Register(job) => self.register(vec![job], Duration::ZERO),
                // The store does not have those that are known here, whatever their number says.
                Command::ReadControls => self.read_all_orders(),
                Command::Skipped { job, reason, count } => {
                    self.inner.node.observers.notify(|group| CronEvent::Skipped {
                        group,
                        job: &job,
                        reason,
                        count,
                    });
                }
            }
        }
    }

    pub(super) fn claim(&mut self, mut due: Due) {
        let node = self.inner.node.clone();
        self.claims += 1;
        let failed = Effect::Claimed(due.clone(), ClaimOutcome::Failed, None);
        let claim = async move {
            let (answer, granted) = start(&node, &mut due).await;
            Effect::Claimed(due, answer, granted.map(Box::new))
        };
        self.spawn(claim, failed);
    }

    pub(super) fn start(&mut self, job: &Arc<Job>, granted: Granted) {
        let (node, job, run) = (self.inner.node.clone(), job.clone(), granted.run);
        let cancel = node.running.begin(&job.name, run, granted.held());
        if matches!(self.phase, Phase::Ending) {
            node.running.cancel(|name, of| *name == job.name && of == run, Why::ShutDown);
        }
        // Also after a panic outside of the body the run is over: it would be kept for ever otherwise, and no later one could start.
        let over = Effect::Over(job.name.clone(), run);
        let body = async move {
            run::run(&node, &job, granted, cancel).await;
            Effect::Over(job.name.clone(), run)
        };
        self.spawn(body, over);
    }

    pub(super) fn handle(&mut self, effect: Effect) {
        let mut commands = Vec::new();
        match effect {
            Effect::Elected(elected) => self.elected(*elected),
            Effect::NotElected => self.elect(RETRY_PAUSE),
            Effect::Resigned => {
                self.resigning = false;
                self.elect(Duration::ZERO);
            }
            Effect::Registered(registrations, Ok(answers)) => self.registered(&registrations, &answers),
            Effect::Registered(registrations, Err(error)) => {
                self.inner.node.store_failed(&error);
                // A sign of life is repeated with the next one.
                let waits = |job: &LockName| self.planner.waits_for_watermark(job);
                let jobs: Vec<_> = registrations.into_iter().map(|r| r.job).filter(waits).collect();
                if self.leadership.is_some() && !jobs.is_empty() {
                    self.register(jobs, RETRY_PAUSE);
                }
            }
            Effect::Orders(asked) => {
                self.reading_orders = false;
                match asked {
                    Ok(orders) => self.ordered(orders, &mut commands),
                    Err(error) => self.inner.node.store_failed(&error),
                }
            }
            Effect::Open(Ok(open)) => self.look_for_orphans(open),
            Effect::Open(Err(error)) => self.inner.node.store_failed(&error),
            Effect::Kept(sent, held, asked) => {
                self.keeping = false;
                match asked {
                    Ok(answers) => self.inner.node.running.kept(sent, &held, &answers),
                    // One failed renewal is no loss: there is time for another.
                    Err(error) => {
                        self.next_keep = Instant::now() + RETRY_PAUSE;
                        self.inner.node.store_failed(&error);
                    }
                }
            }
            Effect::Claimed(due, answer, granted) => {
                self.claims -= 1;
                self.planner.claim_answered(self.now(), &due, answer, &mut commands);
                if let (Some(granted), Some(job)) = (granted, self.jobs.get(&due.job).cloned()) {
                    self.start(&job, *granted);
                }
            }
            Effect::Adopted(job, run, granted) => {
                self.claims -= 1;
                self.adopting.remove(&(job.clone(), run));
                if let (Some(granted), Some(job)) = (granted, self.jobs.get(&job).cloned()) {
                    self.start(&job, *granted);
                }
            }
            Effect::Over(job, run) => {
                self.inner.node.running.over(&job, run);
                self.planner.run_ended(&job);
            }
        }
        self.obey(commands);
    }

    pub(super) fn elected(&mut self, elected: Result<LockGuard, LockError>) {
        match elected {
            Ok(guard) if matches!(self.phase, Phase::Running) => self.lead(guard),
            // Too late: it goes on to the next at once.
            Ok(guard) => drop(guard),
            Err(error) if error.kind() == LockErrorKind::ShutDown => {
                self.failure = Some(error.into());
                self.drain();
            }
            Err(error) => {
                self.inner.node.store_failed(&error);
                self.elect(RETRY_PAUSE);
            }
        }
    }

    pub(super) fn ordered(&mut self, orders: FleetControls, commands: &mut Vec<Command>) {
        let FleetControls::Changed { revision, jobs, triggers } = orders else { return };
        self.known_orders = revision;
        let orders: BTreeMap<LockName, JobControls> = jobs.into_iter().collect();
        for job in self.jobs.values().filter(|job| job.terms.scope == Scope::Fleet) {
            let of_job = orders.get(&job.name);
            let (revision, paused) = of_job.map_or((0, false), |orders| (orders.revision, orders.paused));
            let controls = EffectiveControls { revision, paused, schedule: effective(job, of_job) };
            self.planner.controls_changed(&job.name, controls, commands);
        }
        if self.leadership.is_some() {
            self.see_triggers(&triggers);
            // A run that another node has released raises the revision.
            self.next_open = Instant::now();
        }
        for trigger in triggers {
            self.planner.triggered(&trigger.job, RunId::Triggered(trigger.id));
        }
    }

    pub(super) fn look_for_orphans(&mut self, open: Vec<OpenRun>) {
        if self.leadership.is_none() {
            return;
        }
        self.see_open(&open);
        let left = |run: &OpenRun| matches!(run.state, RunState::Orphaned | RunState::Released);
        for left in open.into_iter().filter(left) {
            let Some(job) = self.jobs.get(&left.job).cloned() else { continue };
            // Its last attempt still ends on this node: a later look finds it.
            if !matches!(self.phase, Phase::Running) || self.inner.node.running.has(&left.job, left.run) {
                continue;
            }
            if !self.adopting.insert((left.job.clone(), left.run)) {
                continue;
            }
            let node = self.inner.node.clone();
            self.claims += 1;
            let failed = Effect::Adopted(left.job.clone(), left.run, None);
            let adoption = async move {
                let granted = take_over(&node, &job, &left).await;
                Effect::Adopted(left.job, left.run, granted.map(Box::new))
            };
            self.spawn(adoption, failed);
        }
    }
}
