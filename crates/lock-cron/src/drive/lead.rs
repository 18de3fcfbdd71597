//! Leadership: one leader for all nodes that know the same jobs.

use super::{Drive, Effect, Leadership, Phase, of_length, panicked, unowned::Unowned};
use crate::{
    observe::CronEvent,
    options::{Scope, fnv},
};
use lock_core::{FencingToken, LockGuard, LockName};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::{Instant, sleep};

impl Drive {
    pub(super) fn elect(&mut self, after: Duration) {
        if !matches!(self.phase, Phase::Running) || self.fleet_jobs().is_empty() {
            return;
        }
        let node = self.inner.node.clone();
        let mut options = self.inner.options.leadership;
        if let Some(floor) = self.floor.take() {
            options = options.token_floor(floor);
        }
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

    /// The nodes that may lead the same jobs: those who know the same, and mean the same instants by them.
    pub(super) fn fingerprint(&self) -> u64 {
        // All nodes choose the same year for what they compare of the zones.
        const YEAR_MS: i64 = 31_557_600_000;
        let year = crate::UtcTime::from_millis(self.now().as_millis() / YEAR_MS * YEAR_MS);
        let fleet = self.jobs.values().filter(|job| job.terms.scope == Scope::Fleet);
        let lines = fleet.map(|job| format!("{}\n{}\n", job.name, job.schedule.fingerprint(year)));
        fnv(&lines.collect::<String>())
    }

    pub(super) fn lead(&mut self, guard: LockGuard) {
        let epoch = guard.fencing_token();
        self.leadership = Some(Leadership { lost: Box::pin(guard.lost()), guard });
        self.inner.leading.store(true, Ordering::SeqCst);
        self.inner.node.observers.tell(&CronEvent::Leading { epoch });
        self.planner.led(epoch);
        self.read_all_orders();
        self.next_open = Instant::now();
        self.unowned = Unowned::default();
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
        self.inner.node.observers.tell(&CronEvent::Resigned);
        self.planner.resigned();
        Some(guard)
    }

    pub(super) fn resign(&mut self, floor: Option<FencingToken>) {
        self.floor = floor.max(self.floor);
        let Some(guard) = self.follow() else { return };
        self.resigning = true;
        let release = async move {
            let _ = guard.release().await;
            Effect::Resigned
        };
        self.spawn(release, Effect::Resigned);
    }

    pub(super) fn register(&mut self, jobs: Vec<LockName>, after: Duration) {
        let (node, failed) = (self.inner.node.clone(), Effect::Registered(jobs.clone(), Err(panicked())));
        let ask = async move {
            sleep(after).await;
            let asked =
                node.store.ask(node.store.ledger().register(node.store.group.clone(), jobs.clone())).await;
            let registered = asked.and_then(|reply| of_length(jobs.len(), reply.outcome));
            Effect::Registered(jobs, registered)
        };
        self.spawn(ask, failed);
    }
}
