//! What the planner wants done, and what became of it.

use super::{Drive, Effect, Phase};
use crate::{
    job::Job,
    node::Why,
    observe::CronEvent,
    options::{OnOrphan, Scope},
    plan::{Answer, Command, Due, utc},
    run,
    scheduler::effective,
    start::{Granted, adopt, bury, start},
    store::AFTER_FAILURE,
};
use lock_core::{
    ErrorKind, FencingToken, LockError, LockGuard, LockName,
    backend::ledger::{Again, CatchUp, ClaimId, JobOrders, KeptRun, OpenRun, Orders, RunId, RunState},
};
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
                        guard: None,
                        claim: ClaimId::random(),
                        token: FencingToken::new(0),
                        attempt: 1,
                        catch_up: due.catch_up,
                        missed: due.missed,
                        started: self.now(),
                    };
                    self.start(&job, granted);
                }
                Command::EndRunning(job) => self.inner.node.cancel(|name, _| *name == job, Why::Replaced),
                Command::Register(job) => self.register(vec![job], Duration::ZERO),
                // The store does not have those that are known here, whatever their number says.
                Command::ReadOrders => self.read_all_orders(),
                Command::Resign { floor } => self.resign(Some(floor)),
                Command::Skipped { job, reason, count } => {
                    self.inner.node.observers.tell(&CronEvent::Skipped { job: &job, reason, count });
                }
            }
        }
    }

    pub(super) fn claim(&mut self, mut due: Due) {
        let Some(job) = self.jobs.get(&due.job).cloned() else { return };
        let node = self.inner.node.clone();
        self.claims += 1;
        let failed = Effect::Claimed(due.clone(), Answer::Failed, None);
        let claim = async move {
            let (answer, granted) = start(&node, &job, &mut due).await;
            Effect::Claimed(due, answer, granted.map(Box::new))
        };
        self.spawn(claim, failed);
    }

    pub(super) fn start(&mut self, job: &Arc<Job>, granted: Granted) {
        let (node, job, run) = (self.inner.node.clone(), job.clone(), granted.run);
        let cancel = node.begin(&job, run, granted.claim);
        if matches!(self.phase, Phase::Ending) {
            node.cancel(|name, of| *name == job.name && of == run, Why::ShutDown);
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
            Effect::NotElected => self.elect(AFTER_FAILURE),
            Effect::Resigned => {
                self.resigning = false;
                self.elect(Duration::ZERO);
            }
            Effect::Registered(jobs, Ok(registered)) => {
                for (job, of_job) in jobs.iter().zip(registered) {
                    self.planner.registered(job, utc(of_job.watermark));
                }
            }
            Effect::Registered(jobs, Err(error)) => {
                self.inner.node.store_failed(&error);
                if self.leadership.is_some() {
                    self.register(jobs, AFTER_FAILURE);
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
            Effect::Kept(runs, asked) => {
                self.keeping = false;
                match asked {
                    Ok(answers) => self.kept(&runs, &answers),
                    // One failed renewal is no loss: there is time for another.
                    Err(error) => {
                        self.next_keep = Instant::now() + AFTER_FAILURE;
                        self.inner.node.store_failed(&error);
                    }
                }
            }
            Effect::Claimed(due, answer, granted) => {
                self.claims -= 1;
                self.planner.answered(self.now(), &due, answer, &mut commands);
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
                self.inner.node.over(&job, run);
                self.planner.ended(&job);
            }
        }
        self.obey(commands);
    }

    pub(super) fn elected(&mut self, elected: Result<LockGuard, LockError>) {
        match elected {
            Ok(guard) if matches!(self.phase, Phase::Running) => self.lead(guard),
            // Too late: it goes on to the next at once.
            Ok(guard) => drop(guard),
            Err(error) if error.kind() == ErrorKind::ShutDown => {
                self.failure = Some(error.into());
                self.drain();
            }
            Err(error) => {
                self.inner.node.store_failed(&error);
                self.elect(AFTER_FAILURE);
            }
        }
    }

    pub(super) fn ordered(&mut self, orders: Orders, commands: &mut Vec<Command>) {
        let Orders::Changed { revision, jobs, triggers } = orders else { return };
        self.known_orders = revision;
        let orders: BTreeMap<LockName, JobOrders> = jobs.into_iter().collect();
        for job in self.jobs.values().filter(|job| job.terms.scope == Scope::Fleet) {
            let of_job = orders.get(&job.name);
            let (revision, paused) = of_job.map_or((0, false), |orders| (orders.revision, orders.paused));
            self.planner.ordered(&job.name, revision, paused, effective(job, of_job), commands);
        }
        if self.leadership.is_some() {
            self.see_triggers(&triggers);
        }
        for trigger in triggers {
            self.planner.triggered(&trigger.job, RunId::Triggered(trigger.id));
        }
    }

    pub(super) fn kept(&mut self, runs: &[(LockName, RunId, ClaimId)], answers: &[KeptRun]) {
        let node = &self.inner.node;
        for ((job, run, claim), answer) in runs.iter().zip(answers) {
            match answer {
                KeptRun::Replaced => node.cancel(|name, of| name == job && of == *run, Why::Replaced),
                KeptRun::Gone => node.gone(job, *run, *claim),
                _ => {}
            }
        }
    }

    pub(super) fn look_for_orphans(&mut self, open: Vec<OpenRun>) {
        let Some(epoch) = self.leadership.as_ref().map(|leadership| leadership.guard.fencing_token()) else {
            return;
        };
        self.see_open(&open);
        for orphan in open.into_iter().filter(|run| run.state == RunState::Orphaned) {
            let Some(job) = self.jobs.get(&orphan.job).cloned() else { continue };
            let key = (orphan.job.clone(), orphan.run);
            if !matches!(self.phase, Phase::Running) || !self.adopting.insert(key) {
                continue;
            }
            let mut due = Due {
                job: orphan.job,
                run: orphan.run,
                catch_up: CatchUp::Yes,
                overlap: job.terms.overlap,
                missed: 0,
                revision: 0,
                epoch,
                in_doubt: None,
            };
            let most = job.terms.attempts_of_orphan();
            let again = (job.terms.on_orphan != OnOrphan::Skip && orphan.attempt < most)
                .then_some(Again { claim: orphan.claim, most });
            let node = self.inner.node.clone();
            self.claims += 1;
            let failed = Effect::Adopted(due.job.clone(), due.run, None);
            let adoption = async move {
                let granted = match again {
                    Some(again) => adopt(&node, &job, &mut due, again).await,
                    None => {
                        if bury(&node, &due, orphan.claim).await {
                            node.observers.tell(&CronEvent::Orphan { job: &due.job, again: false });
                        }
                        None
                    }
                };
                if granted.is_some() {
                    node.observers.tell(&CronEvent::Orphan { job: &due.job, again: true });
                }
                Effect::Adopted(due.job, due.run, granted.map(Box::new))
            };
            self.spawn(adoption, failed);
        }
    }
}
