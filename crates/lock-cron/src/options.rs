//! What may be chosen for a job, and what holds if nothing is.

use crate::{backoff::Backoff, hash::StableHash};
use std::time::Duration;

/// What becomes of a run while others of its job are open, anywhere in the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// It is skipped, and the history says so.
    #[default]
    Skip,
    /// It waits for them; if another comes due meanwhile, that one waits in its place. A waiting run that its node does not
    /// live to start is, for the next leader, one that was missed: see [`Misfire`].
    QueueOne,
    /// They are asked to end ([`RunContext::cancelled`](crate::RunContext::cancelled)), and it starts when they have. A run on
    /// another node is asked with the next renewal of its lease: within a third of
    /// [`run_lease`](crate::SchedulerBuilder::run_lease), 10 s by default.
    CancelPrevious,
    /// It starts beside them, while fewer than so many are open.
    Allow {
        /// How many may be open at once; at least 1.
        max: u32,
    },
}

/// Decides which missed instants are started after an outage or a change of the leader.
///
/// The latest instant that has come is *late* while it is within its [grace](crate::JobBuilder::grace): it is started under every
/// policy, and is no catch-up run. Every other instant that nobody started is *missed*.
///
/// Catch-up runs of a job queue behind one another, whatever its [`Overlap`] policy. The first run that is on time queues behind
/// them; later ones follow the policy. At most 1,000 instants are started, and at most 1,000 are counted as skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Misfire {
    /// Missed instants are not started.
    Skip,
    /// The latest instant is started, however late.
    #[default]
    FireOnce,
    /// The latest `max` instants are started in ascending order, however late. A late one is the last of them.
    FireAll {
        /// The most instants that are started; at least 1.
        max: u32,
    },
}

/// What becomes of a run whose node died, or lost its lease, before it said how the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnOrphan {
    /// It is recorded as abandoned: each body is started at most once. A run whose body had not begun, or that was waiting for its
    /// next [attempt](Retries), goes on elsewhere all the same.
    #[default]
    Skip,
    /// It is run again, with a higher fencing token. A body that a shutdown cancels counts as orphaned too: the next leader
    /// runs it again at once. Failures have a budget of their own, see [`Retries`].
    Retry {
        /// How many times at most.
        max: u32,
    },
}

/// Whether and when a run that failed, panicked or took too long is tried again: by the same node, or by
/// the next leader if that node ends. A run that waits for its next attempt is open, and the overlap policy counts it.
///
/// | option | default |
/// | --- | --- |
/// | `max` | 0: once is all |
/// | `first` | 1 s, before the second attempt; it doubles with each |
/// | `longest` | 1 minute |
///
/// Up to a quarter is taken off at random, so that jobs that failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Retries {
    /// How many further attempts.
    pub max: u32,
    /// The wait before the first of them.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max: 0, first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

impl Retries {
    /// So many further attempts, with the default waits.
    #[must_use]
    pub fn times(max: u32) -> Self {
        Self { max, ..Self::default() }
    }

    /// Returns the wait after this many attempts, `random` being a number from the whole range.
    pub(crate) fn wait(&self, attempts: u32, random: u64) -> Duration {
        let whole = Backoff::new(self.first, self.longest).after(attempts.saturating_sub(1));
        whole.saturating_sub(part(whole / 4, random))
    }
}

/// How long a run waits between its claim and its body, so that many jobs of one instant do not hit a resource together. It is no
/// part of the run's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StartJitter {
    /// It does not.
    #[default]
    None,
    /// A part of this time that the job's name decides, the same for every run.
    Fixed(Duration),
    /// A random part of this time.
    Random(Duration),
}

impl StartJitter {
    pub(crate) fn wait(self, job: &str, random: u64) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(most) => part(most, StableHash::of(job)),
            Self::Random(most) => part(most, random),
        }
    }
}

/// The part of a duration that a number from the whole range stands for, up to all of it.
fn part(whole: Duration, number: u64) -> Duration {
    let nanos = whole.as_nanos() * u128::from(number >> 32) / u128::from(u32::MAX);
    let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(secs, u32::try_from(nanos % 1_000_000_000).unwrap_or(0))
}

/// Where a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Scope {
    /// Once in the fleet.
    #[default]
    Fleet,
    /// On every node, for that node alone: no leader, no claim, no record beyond this process, no retry.
    PerNode,
}

/// All that is chosen for a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobTerms {
    pub(crate) scope: Scope,
    pub(crate) overlap: Overlap,
    pub(crate) misfire: Misfire,
    /// `None` is half the distance to the next instant.
    pub(crate) grace: Option<Duration>,
    pub(crate) on_orphan: OnOrphan,
    pub(crate) retries: Retries,
    pub(crate) timeout: Option<Duration>,
    pub(crate) jitter: StartJitter,
    pub(crate) cancel_grace: Duration,
}

impl Default for JobTerms {
    fn default() -> Self {
        Self {
            scope: Scope::Fleet,
            overlap: Overlap::Skip,
            misfire: Misfire::FireOnce,
            grace: None,
            on_orphan: OnOrphan::Skip,
            retries: Retries::default(),
            timeout: None,
            jitter: StartJitter::None,
            cancel_grace: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_lose_at_most_a_quarter() {
        let retries = Retries { max: 9, first: Duration::from_secs(1), longest: Duration::from_secs(5) };
        for (attempts, whole) in [(1, 1), (2, 2), (3, 4), (4, 5), (60, 5)] {
            let whole = Duration::from_secs(whole);
            assert_eq!(retries.wait(attempts, 0), whole);
            assert_eq!(retries.wait(attempts, u64::MAX), whole * 3 / 4);
        }
    }

    #[test]
    fn the_longest_waits_do_not_overflow() {
        let retries = Retries { max: 9, first: Duration::MAX, longest: Duration::MAX };
        for random in [0, 1 << 40, u64::MAX] {
            let wait = retries.wait(u32::MAX, random);
            assert!(wait >= Duration::MAX / 4 * 3 - Duration::from_secs(1), "{wait:?}");
        }
    }

    #[test]
    fn fixed_jitter_is_that_of_the_job_and_spread() {
        let minute = Duration::from_secs(60);
        let fixed = |job: &str| StartJitter::Fixed(minute).wait(job, 7);
        assert_eq!(fixed("a"), fixed("a"));
        let waits: Vec<_> = (0..100).map(|n| fixed(&format!("job-{n}"))).collect();
        assert!(waits.iter().all(|wait| *wait <= minute));
        let early = waits.iter().filter(|wait| **wait < minute / 2).count();
        assert!((30..70).contains(&early), "{early} of 100 are in the first half");
        assert_eq!(StartJitter::Random(Duration::MAX).wait("a", u64::MAX), Duration::MAX);
        assert!(
            StartJitter::Random(minute).wait("a", u64::MAX) == minute
                && StartJitter::None.wait("a", 9).is_zero()
        );
    }
}
