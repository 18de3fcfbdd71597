//! The policies of a job, its terms, and their defaults.

use crate::hash::StableHash;
use lock_core::__private::Backoff;
use lock_ledger::{OverlapRule, PoolLimit};
use std::time::Duration;

/// The policy for a run that is due while other runs of its job are open, anywhere in the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// Skips the run, and records the skip in the history.
    #[default]
    Skip,
    /// Queues the run. A run that becomes due later replaces a waiting run. If the node of a
    /// waiting run dies, the next leader treats the run as missed; see [`Misfire`].
    QueueOne,
    /// Cancels the open runs ([`RunContext::cancelled`](crate::RunContext::cancelled)), and starts
    /// the run when they have ended. A run on another node receives the request with the next
    /// renewal of its lease, within a third of [`run_lease`](crate::SchedulerBuilder::run_lease)
    /// (10 s by default).
    CancelPrevious,
    /// Starts the run while fewer than `max` are open.
    Allow {
        /// The maximum number of open runs; at least 1.
        max: u32,
    },
}

impl Overlap {
    /// Returns the ledger's rule for this policy.
    pub(crate) fn rule(self) -> OverlapRule {
        match self {
            Self::Skip => OverlapRule::Skip,
            Self::QueueOne => OverlapRule::Queue { max: 1 },
            Self::CancelPrevious => OverlapRule::Replace,
            Self::Allow { max } => OverlapRule::Allow { max },
        }
    }

    /// Returns the ledger's rule for a run that waits for other runs instead of being skipped.
    pub(crate) fn queue_rule(self) -> OverlapRule {
        match self {
            Self::Skip | Self::QueueOne | Self::CancelPrevious => OverlapRule::Queue { max: 1 },
            Self::Allow { max } => OverlapRule::Queue { max },
        }
    }
}

/// The policy for missed runs after an outage or a leader change.
///
/// The latest due run is *late* while it is within its [grace](crate::JobBuilder::grace). It is
/// started under every policy, and is not a catch-up run. Every other run that was not started is
/// *missed*.
///
/// A job's catch-up runs are started one after another, and the first on-time run queues behind
/// them, whether the job's [`Overlap`] policy skips runs or cancels them. Later ones follow the
/// policy. With [`Overlap::Allow`], catch-up runs start while fewer than `max` runs are open, and
/// wait otherwise. At most 1,000 runs are started, and at most 1,000 are counted as skipped.
///
/// Each run that has become due is started, or is counted in exactly one skip in the history,
/// except during a pause or after a loss of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Misfire {
    /// Missed runs are not started.
    Skip,
    /// The latest missed run is started, however late.
    #[default]
    FireOnce,
    /// The latest `max` runs are started in ascending order, however late. A late run is the last
    /// of them.
    FireAll {
        /// The number of runs to start; at least 1.
        max: u32,
    },
}

/// The policy for a run whose node died or lost its lease before recording the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnOrphan {
    /// Records the run as abandoned, and does not start its body again. A run whose body had not
    /// started, or that was waiting for its next [attempt](Retries), still continues on another
    /// node.
    #[default]
    Skip,
    /// Retries the run with a higher fencing token. A body cancelled by a shutdown also counts as
    /// orphaned, and the leader retries it immediately. Failures have a separate budget; see
    /// [`Retries`].
    Retry {
        /// The number of further attempts.
        max: u32,
    },
}

/// The retries of a run that failed, panicked or timed out. The same node retries the run, or the
/// leader if that node stops. A run that waits for its next attempt is open, so the overlap policy
/// counts it.
///
/// | option | default |
/// | --- | --- |
/// | `max` | 0: no further attempt |
/// | `initial_delay` | 1 s, before the second attempt; the delay doubles with each further attempt |
/// | `max_delay` | 1 minute |
///
/// Each delay is randomly reduced by up to a quarter, so jobs that failed together are not retried
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Retries {
    /// The maximum number of further attempts.
    pub max: u32,
    /// The delay before the first further attempt.
    pub initial_delay: Duration,
    /// The maximum delay before a further attempt.
    pub max_delay: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max: 0, initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(60) }
    }
}

impl Retries {
    /// Allows this many further attempts, with the default delays.
    #[must_use]
    pub fn times(max: u32) -> Self {
        Self { max, ..Self::default() }
    }

    /// Returns the delay after this many attempts. `random` is a number from the full range of `u64`.
    pub(crate) fn delay(&self, attempts: u32, random: u64) -> Duration {
        let whole = Backoff::new(self.initial_delay, self.max_delay).after(attempts.saturating_sub(1));
        whole.saturating_sub(part(whole / 4, random))
    }
}

/// The delay between the claim of a run and its body, which spreads the load of many jobs that are
/// due at the same time. It does not change the identity of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Jitter {
    /// No delay.
    #[default]
    None,
    /// A fraction of this time that depends on the job's name and is the same for every run.
    Fixed(Duration),
    /// A random fraction of this time.
    Random(Duration),
}

impl Jitter {
    pub(crate) fn delay(self, job: &str, random: u64) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(max) => part(max, StableHash::of(job)),
            Self::Random(max) => part(max, random),
        }
    }
}

/// Maps a number from the full range of `u64` to a duration between zero and `whole`.
fn part(whole: Duration, number: u64) -> Duration {
    let nanos = whole.as_nanos() * u128::from(number >> 32) / u128::from(u32::MAX);
    let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(secs, u32::try_from(nanos % 1_000_000_000).unwrap_or(0))
}

/// The nodes that start the on-time runs of a job. Missed runs, triggered runs and orphans are
/// always started by the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Placement {
    /// Any node. A hash of the job and the scheduled time selects the node, among those that have
    /// [room](crate::SchedulerBuilder::max_running). If that node does not claim the run, another
    /// node or the leader does so within about two seconds. A run that must wait for another run of
    /// its job is left to the leader.
    #[default]
    Spread,
    /// The leader.
    Leader,
}

/// The terms of a job.
#[derive(Debug, Clone)]
pub(crate) struct JobTerms {
    pub(crate) placement: Placement,
    pub(crate) overlap: Overlap,
    pub(crate) pool: Option<PoolLimit>,
    pub(crate) misfire: Misfire,
    /// `None` for the default, half the interval to the next scheduled time.
    pub(crate) grace: Option<Duration>,
    pub(crate) on_orphan: OnOrphan,
    pub(crate) retries: Retries,
    pub(crate) timeout: Option<Duration>,
    pub(crate) jitter: Jitter,
    pub(crate) cancel_grace: Duration,
    pub(crate) alert_after: Option<Duration>,
}

impl Default for JobTerms {
    fn default() -> Self {
        Self {
            placement: Placement::Spread,
            overlap: Overlap::Skip,
            pool: None,
            misfire: Misfire::FireOnce,
            grace: None,
            on_orphan: OnOrphan::Skip,
            retries: Retries::default(),
            timeout: None,
            jitter: Jitter::None,
            cancel_grace: Duration::from_secs(5),
            alert_after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_lose_at_most_a_quarter() {
        let retries =
            Retries { max: 9, initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(5) };
        for (attempts, whole) in [(1, 1), (2, 2), (3, 4), (4, 5), (60, 5)] {
            let whole = Duration::from_secs(whole);
            assert_eq!(retries.delay(attempts, 0), whole);
            assert_eq!(retries.delay(attempts, u64::MAX), whole * 3 / 4);
        }
    }

    #[test]
    fn maximum_delays_do_not_overflow() {
        let retries = Retries { max: 9, initial_delay: Duration::MAX, max_delay: Duration::MAX };
        for random in [0, 1 << 40, u64::MAX] {
            let delay = retries.delay(u32::MAX, random);
            assert!(delay >= Duration::MAX / 4 * 3 - Duration::from_secs(1), "{delay:?}");
        }
    }

    #[test]
    fn fixed_jitter_is_stable_per_job_and_spread() {
        let minute = Duration::from_secs(60);
        let fixed = |job: &str| Jitter::Fixed(minute).delay(job, 7);
        assert_eq!(fixed("a"), fixed("a"));
        let waits: Vec<_> = (0..100).map(|n| fixed(&format!("job-{n}"))).collect();
        assert!(waits.iter().all(|wait| *wait <= minute));
        let early = waits.iter().filter(|wait| **wait < minute / 2).count();
        assert!((30..70).contains(&early), "{early} of 100 are in the first half");
        assert_eq!(Jitter::Random(Duration::MAX).delay("a", u64::MAX), Duration::MAX);
        assert!(
            Jitter::Random(minute).delay("a", u64::MAX) == minute && Jitter::None.delay("a", 9).is_zero()
        );
    }
}
