//! The main loop: plan, execute, wait for the next event; and the phases of its shutdown.

use super::{effect::Effect, leadership, phase::Phase, state::RunLoop};
use crate::{
    error::CronError, node::ShutdownStage, observer::CronEvent, plan::Budget, running::CancelReason,
};
use std::{future::Future, pin::pin, time::Duration};
use tokio::{
    task::{JoinError, yield_now},
    time::{Instant, sleep_until},
};

/// The maximum sleep, which limits the delay until clock steps and machine suspensions are
/// detected.
const MAX_SLEEP: Duration = Duration::from_secs(1);

impl RunLoop {
    /// Runs until the signal, then until everything has ended.
    pub(crate) async fn run(mut self, signal: impl Future<Output = ()>) -> Result<(), CronError> {
        let mut signal = pin!(signal);
        if self.is_member() {
            let jobs = self.fingerprint;
            self.shared.node.observers.notify(|group| CronEvent::Joined { group, jobs });
        }
        self.elect(Duration::ZERO);
        while !self.is_done() {
            self.check_leadership();
            self.poll_ledger();
            let mut commands = Vec::new();
            self.planner.tick(self.now(), self.room(), &mut Budget::default(), &mut commands);
            self.execute(commands);
            let wake = self.wake_at();
            let shared = self.shared.clone();
            tokio::select! {
                biased;
                () = &mut signal, if self.phase == Phase::Running => self.drain(),
                reason = leadership::lost(&mut self.leadership) => self.leadership_lost(&reason),
                Some(done) = self.effects.join_next() => {
                    self.task_done(done);
                    // Handled together: planning examines every job, and many runs may be due at once.
                    while let Some(done) = self.effects.try_join_next() {
                        self.task_done(done);
                    }
                }
                () = shared.wake.notified() => self.timers.heartbeat = Instant::now(),
                () = sleep_or_yield(wake) => {}
            }
            self.advance();
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    fn task_done(&mut self, done: Result<Effect, JoinError>) {
        match done {
            Ok(effect) => self.handle(effect),
            // A task only ends early if the runtime shuts down: panics are caught in the task.
            Err(error) => tracing::error!(%error, "scheduler task ended early"),
        }
    }

    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let planned = self.planner.wake_at().and_then(|at| now.checked_add(at.since(self.now())));
        let heartbeat = Some(self.timers.heartbeat).filter(|_| self.phase == Phase::Running);
        let timers = self.phase.deadline().into_iter().chain(heartbeat).filter(|at| *at > now);
        planned.into_iter().chain(timers).fold(now + MAX_SLEEP, Instant::min)
    }

    /// Starts the shutdown: no further claims are sent.
    pub(super) fn drain(&mut self) {
        if self.phase == Phase::Running {
            self.planner.drain();
            self.leave();
            self.shared.node.shutdown.advance(ShutdownStage::Draining);
            self.phase = Phase::Draining(Instant::now().checked_add(self.shared.terms.shutdown_grace));
        }
    }

    /// Advances the shutdown as far as possible.
    fn advance(&mut self) {
        let node = self.shared.node.clone();
        let is_overdue = self.phase.is_overdue(Instant::now());
        match self.phase {
            Phase::Draining(deadline) if self.claims == 0 => {
                self.resign();
                self.phase = Phase::Finishing(deadline);
            }
            // The next leader finds the runs that these claims may have started.
            Phase::Draining(_) if is_overdue => node.shutdown.advance(ShutdownStage::GivingUp),
            Phase::Finishing(_) if is_overdue => {
                node.shutdown.advance(ShutdownStage::GivingUp);
                node.running.cancel(|_| true, CancelReason::Shutdown);
                self.phase = Phase::Ending;
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Finishing(_) | Phase::Ending)
            && self.shared.node.running.is_empty()
            && !self.resigning
            && !self.leaving
    }
}

/// Yields even if `until` has passed, because after a long outage, many consecutive ticks leave work
/// for the next one.
async fn sleep_or_yield(until: Instant) {
    if until <= Instant::now() {
        yield_now().await;
    } else {
        sleep_until(until).await;
    }
}
