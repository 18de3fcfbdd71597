//! Elections: one leader for all nodes with the same jobs.

use super::{
    effect::Effect, leadership::Leadership, phase::Phase, polling::REGISTRATION_INTERVAL, state::RunLoop,
    unowned::UnownedJobs,
};
use crate::{backoff::RETRY_PAUSE, observer::CronEvent};
use lock_core::{__private::reserved_name, LockError, LockErrorKind, LockGuard};
use std::{fmt, sync::atomic::Ordering, time::Duration};
use tokio::time::{Instant, sleep};

impl RunLoop {
    /// Joins the election after this delay.
    pub(super) fn elect(&mut self, after: Duration) {
        if self.phase != Phase::Running || !self.is_member() {
            return;
        }
        let node = self.shared.node.clone();
        let options = self.shared.terms.leadership;
        let name = format!("leader:{{{}}}:{:016x}", node.ledger.group(), self.fingerprint);
        let election = async move {
            sleep(after).await;
            let name = reserved_name(&name).expect("the group name was validated");
            let lock = node.locks.named(name).and_then(|lock| lock.with_options(options));
            let elected = match lock {
                Ok(lock) => lock.acquire().await,
                Err(error) => Err(error),
            };
            Effect::Elected(Box::new(elected))
        };
        self.spawn(election, Effect::ElectionPanicked);
    }

    pub(super) fn elected(&mut self, elected: Result<LockGuard, LockError>) {
        match elected {
            Ok(guard) if self.phase == Phase::Running => self.lead(guard),
            // The shutdown has begun. The next candidate acquires the lock immediately.
            Ok(guard) => drop(guard),
            Err(error) if error.kind() == LockErrorKind::ShutDown => {
                self.failure = Some(error.into());
                self.drain();
            }
            Err(error) => {
                self.shared.node.store_failed(&error);
                self.elect(RETRY_PAUSE);
            }
        }
    }

    fn lead(&mut self, guard: LockGuard) {
        let token = guard.fencing_token();
        self.leadership = Some(Leadership::new(guard));
        self.shared.leading.store(true, Ordering::SeqCst);
        let jobs = self.fingerprint;
        self.shared.node.observers.notify(|group| CronEvent::Elected { group, jobs, token });
        self.planner.elected();
        self.read_all_controls();
        self.unowned = UnownedJobs::default();
        self.timers.open_runs = Instant::now();
        self.timers.registration = self.timers.beats.within(Instant::now(), REGISTRATION_INTERVAL);
        self.register(&self.job_names(), Duration::ZERO);
        self.describe_kinds();
    }

    /// Checks the leadership against the clock before anything is planned. After the process was suspended, timers may
    /// not have fired yet, and another leader may have started the runs that seem to be missed.
    pub(super) fn check_leadership(&mut self) {
        if self.leadership.as_ref().is_some_and(|leadership| !leadership.guard.is_held()) {
            self.leadership_lost(&"the leadership lease was lost");
        }
    }

    pub(super) fn leadership_lost(&mut self, reason: &dyn fmt::Display) {
        tracing::warn!(cron.group = self.shared.node.observers.group(), %reason, "leadership lost");
        self.follow();
        self.elect(Duration::ZERO);
    }

    /// Ends this node's leadership, and returns its lock without releasing it.
    pub(super) fn follow(&mut self) -> Option<LockGuard> {
        let Leadership { guard, .. } = self.leadership.take()?;
        self.shared.leading.store(false, Ordering::SeqCst);
        let jobs = self.fingerprint;
        self.shared.node.observers.notify(|group| CronEvent::Resigned { group, jobs });
        self.planner.resigned();
        self.hand_over_overdue();
        Some(guard)
    }

    /// Ends this node's leadership and releases its lock.
    pub(super) fn resign(&mut self) {
        let Some(guard) = self.follow() else { return };
        self.resigning = true;
        let release = async move {
            let _ = guard.release().await;
            Effect::Resigned
        };
        self.spawn(release, Effect::Resigned);
    }
}
