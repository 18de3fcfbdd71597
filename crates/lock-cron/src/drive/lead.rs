//! Leadership: one leader for all nodes that know the same jobs.

use super::{Drive, Effect, Leadership, Phase, of_length, panicked, unowned::Unowned};
use crate::{hash::StableHash, observer::CronEvent, options::Scope, time::UtcTime};
use lock_core::{LockGuard, LockName};
use lock_ledger::{JobStatus, RegisteredJob, Registration};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::{Instant, sleep};

/// The time between the registrations of a leader.
pub(super) const REGISTER_EVERY: Duration = Duration::from_secs(60);

/// A watermark that is further in the future was set by a clock that was ahead.
const AHEAD: Duration = Duration::from_secs(60);

impl Drive {
    pub(super) fn elect(&mut self, after: Duration) {
        if !matches!(self.phase, Phase::Running) || self.fleet_jobs().is_empty() {
            return;
        }
        let node = self.inner.node.clone();
        let options = self.inner.options.leadership;
        let name = format!("leader:{{{}}}:{:016x}", node.store.group, self.fingerprint());
        let election = async move {
            sleep(after).await;
            let name = LockName::reserved(&name).expect("the group was checked to fit");
            let lock = node.locks.named(name).and_then(|lock| lock.with_options(options));
            let elected = match lock {
                Ok(lock) => lock.acquire().await,
                Err(error) => Err(error),
            };
            Effect::Elected(Box::new(elected))
        };
        self.spawn(election, Effect::NotElected);
    }

    /// Equal on nodes that know the same jobs with the same schedules. Such nodes elect one leader. Versions of the zone data are
    /// not in it: nodes that were started before and after an update elect one leader all the same.
    fn fingerprint(&self) -> u64 {
        let fleet = self.jobs.values().filter(|job| job.terms.scope == Scope::Fleet);
        let lines = fleet.map(|job| format!("{}\n{:016x}\n", job.name, job.schedule.identity()));
        StableHash::of(&lines.collect::<String>())
    }

    pub(super) fn lead(&mut self, guard: LockGuard) {
        let token = guard.fencing_token();
        self.leadership = Some(Leadership { lost: Box::pin(guard.lost()), guard });
        self.inner.leading.store(true, Ordering::SeqCst);
        self.inner.node.observers.notify(|group| CronEvent::Elected { group, token });
        self.planner.elected();
        self.read_all_orders();
        self.next_open = Instant::now();
        self.unowned = Unowned::default();
        self.next_register = Instant::now() + REGISTER_EVERY;
        self.register(self.fleet_jobs(), Duration::ZERO);
    }

    /// Looks at the clock before anything is planned: in a process that was stopped, no timer has fired yet, and another leader may
    /// have started the runs that seem to be missed.
    pub(super) fn look_at_the_hold(&mut self) {
        if self.leadership.as_ref().is_some_and(|leadership| !leadership.guard.is_held()) {
            self.leadership_lost(&"its lease has ended");
        }
    }

    pub(super) fn leadership_lost(&mut self, reason: &dyn std::fmt::Display) {
        tracing::warn!(cron.group = %self.inner.node.store.group, %reason, "leadership lost");
        self.follow();
        self.elect(Duration::ZERO);
    }

    /// This node leads no more.
    pub(super) fn follow(&mut self) -> Option<LockGuard> {
        let Leadership { guard, .. } = self.leadership.take()?;
        self.inner.leading.store(false, Ordering::SeqCst);
        self.inner.node.observers.notify(|group| CronEvent::Resigned { group });
        self.planner.resigned();
        Some(guard)
    }

    pub(super) fn resign(&mut self) {
        let Some(guard) = self.follow() else { return };
        self.resigning = true;
        let release = async move {
            let _ = guard.release().await;
            Effect::Resigned
        };
        self.spawn(release, Effect::Resigned);
    }

    /// Makes jobs known to the store and reads their watermarks. Also a sign of life: a job that no leader has registered for a
    /// while counts as removed.
    pub(super) fn register(&mut self, jobs: Vec<LockName>, after: Duration) {
        let node = self.inner.node.clone();
        let registrations: Vec<_> = jobs.iter().filter_map(|job| self.planner.registration(job)).collect();
        let failed = Effect::Registered(registrations.clone(), Err(panicked()));
        let ask = async move {
            sleep(after).await;
            let register = node.store.ledger().register(node.store.group.clone(), registrations.clone());
            let asked = node.store.ask(register).await;
            let answers = asked.and_then(|reply| of_length(registrations.len(), reply.outcome));
            Effect::Registered(registrations, answers)
        };
        self.spawn(ask, failed);
    }

    pub(super) fn registered(&mut self, registrations: &[Registration], answers: &[RegisteredJob]) {
        if self.leadership.is_none() {
            return;
        }
        let now = self.now();
        for (registration, answer) in registrations.iter().zip(answers) {
            let (job, watermark) = (&registration.job, UtcTime::from(answer.watermark));
            let known = !self.registered.insert(job.clone());
            if known && answer.status == JobStatus::New {
                self.inner.node.observers.notify(|group| CronEvent::DataLost { group, job });
            }
            let by = watermark.since(now);
            if by > AHEAD {
                self.inner.node.observers.notify(|group| CronEvent::WatermarkAhead { group, job, by });
            }
            self.planner.registered(registration, watermark);
        }
    }
}
