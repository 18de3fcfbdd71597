//! The back-off between requests to a failing backend.

use super::context::Ctx;
use crate::time::Moment;
use std::time::Duration;

const FIRST_RETRY: Duration = Duration::from_millis(50);
pub(super) const SLOWEST_RETRY: Duration = Duration::from_secs(2);
/// The number of rounds within which rivals resolve a split vote. After that, something else is probably wrong, and
/// rounds become less frequent.
const MAX_QUICK_ROUNDS: u32 = 5;

/// Returns the delay before attempt number `failures` + 1: 50 ms, doubling up to 2 s, plus jitter of up to a quarter,
/// so that the processes in a fleet do not retry in step. It is always shorter than the operation timeout, so that a
/// failed operation is repeated and answered within two timeouts after the store answers again.
pub(super) fn back_off(s: &mut Ctx<'_>, failures: u32, timeout: Duration) -> Duration {
    let slowest = SLOWEST_RETRY.min(timeout / 4 * 3).max(Duration::from_millis(1));
    let base = (FIRST_RETRY * 2u32.saturating_pow(failures.saturating_sub(1).min(16))).min(slowest);
    base + s.jitter(base / 4)
}

/// The back-off between acquires of this name. It outlives the waiters: a stream of callers that give up must not
/// become a stream of requests to a server that is down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    failures: u32,
    /// Consecutive split votes.
    contended: u32,
    /// The time before which no acquire is sent.
    pub(super) resume_at: Moment,
}

impl Backoff {
    pub(super) fn failed(&mut self, s: &mut Ctx<'_>, timeout: Duration) {
        self.failures = self.failures.saturating_add(1);
        self.resume_at = s.now + back_off(s, self.failures, timeout);
    }

    /// Records a split vote: the next acquire waits for the time that the backend requests, doubled with each round
    /// after the first few.
    pub(super) fn contended(&mut self, s: &Ctx<'_>, retry_after: Duration, timeout: Duration) {
        let contended = self.contended.saturating_add(1);
        let times = 2u32.saturating_pow(contended.saturating_sub(MAX_QUICK_ROUNDS).min(16));
        // At least 1 ms: with zero, a store that replies immediately would cause an endless loop.
        let quick = retry_after.max(Duration::from_millis(1));
        let slowest = SLOWEST_RETRY.min(timeout / 4 * 3).max(quick);
        let resume_at = s.now + quick.saturating_mul(times).min(slowest);
        *self = Self { failures: 0, contended, resume_at };
    }

    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }
}
