//! Campaigns, the pauses between them, and the observation of the leader.

use super::{
    candidate::Candidate,
    role::{Leader, Role},
};
use crate::{
    backend::Inspected,
    error::{LockError, LockErrorKind},
    guard::LockGuard,
    observer::Notable,
    sync::sleep,
};
use std::{convert::Infallible, future::Future, time::Duration};

impl Candidate {
    /// Campaigns until it is elected. After a store failure it pauses and tries again.
    ///
    /// # Errors
    /// `ShutDown` or `NoRuntime`, after which no later campaign can succeed.
    pub(super) async fn campaign(&self) -> Result<LockGuard, LockError> {
        loop {
            let error = match self.follow_while(self.lock.acquire()).await {
                Ok(guard) => return Ok(guard),
                Err(error) => error,
            };
            if matches!(
                error.kind(),
                LockErrorKind::ShutDown | LockErrorKind::NoRuntime | LockErrorKind::Forked
            ) {
                return Err(error);
            }
            self.handle().log(&Notable::CampaignFailed { name: self.lock.name(), error: &error });
            // The pause does not grow: an acquire has a back-off of its own, and fails only after the outage budget.
            self.pause(self.options.initial_delay).await;
        }
    }

    /// Pauses for `delay` and up to a quarter more, but no longer than the maximum delay.
    pub(super) async fn pause(&self, delay: Duration) {
        self.follow_while(sleep(self.with_jitter(delay))).await;
    }

    fn with_jitter(&self, delay: Duration) -> Duration {
        const STEPS: u32 = 1024;
        let step = u32::try_from(self.handle().jitter() % u64::from(STEPS)).unwrap_or(0);
        let jitter = delay / 4 / STEPS * step;
        delay.saturating_add(jitter).min(self.options.max_delay)
    }

    /// Runs `work` while keeping the role up to date.
    async fn follow_while<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            value = work => value,
            never = self.watch_leader() => match never {},
        }
    }

    async fn watch_leader(&self) -> Infallible {
        let every = self.options.lock.chosen_lease() / 3;
        loop {
            let seen = self.leader().await;
            self.role.send_if_modified(|role| {
                let changes = role.leader() != seen.as_ref();
                if changes {
                    *role = Role::Following { leader: seen };
                }
                changes
            });
            sleep(every).await;
        }
    }

    async fn leader(&self) -> Option<Leader> {
        match self.locks.stored(self.lock.name()).await.map(|reply| reply.outcome) {
            Ok(Inspected::Held(stored)) => Some(Leader { lease: stored.lease }),
            Ok(Inspected::Free) => None,
            Err(error) => {
                tracing::debug!(lock.name = self.lock.name().as_str(), error = %format_args!("{error:#}"), "failed to look up the current leader");
                None
            }
        }
    }
}
