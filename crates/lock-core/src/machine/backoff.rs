//! How quickly a failing backend is asked again.

use super::context::Ctx;
use crate::time::Moment;
use std::time::Duration;

const FIRST_RETRY: Duration = Duration::from_millis(50);
pub(super) const SLOWEST_RETRY: Duration = Duration::from_secs(2);
/// Rivals settle a split vote within so many rounds. After that something else is wrong, and rounds become rarer.
const MAX_QUICK_ROUNDS: u32 = 5;

/// The time until try number `failures` + 1: 50 ms, doubling up to 2 s, each with up to a quarter of jitter so
/// that the processes of a fleet do not come back in step. Always shorter than the operation timeout, so that
/// nothing is left two of them after the store answers again.
pub(super) fn back_off(s: &mut Ctx<'_>, failures: u32, timeout: Duration) -> Duration {
    let slowest = SLOWEST_RETRY.min(timeout / 4 * 3).max(Duration::from_millis(1));
    let base = (FIRST_RETRY * 2u32.saturating_pow(failures.saturating_sub(1).min(16))).min(slowest);
    base + s.jitter(base / 4)
}

/// The back-off of acquires of this name. It outlives the waiters: a stream of callers that give up must not turn
/// into a stream of requests to a server that is down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    failures: u32,
    /// Split votes in a row.
    contended: u32,
    /// No acquire before that.
    pub(super) resume_at: Moment,
}

impl Backoff {
    pub(super) fn failed(&mut self, s: &mut Ctx<'_>, timeout: Duration) {
        self.failures = self.failures.saturating_add(1);
        self.resume_at = s.now + back_off(s, self.failures, timeout);
    }

    /// The votes were split: the time that the backend asks for, doubled with each round after the first few.
    pub(super) fn contended(&mut self, s: &Ctx<'_>, retry_after: Duration, timeout: Duration) {
        let contended = self.contended.saturating_add(1);
        let times = 2u32.saturating_pow(contended.saturating_sub(MAX_QUICK_ROUNDS).min(16));
        // At once would be never: the answer may come in place, and the next one as well.
        let quick = retry_after.max(Duration::from_millis(1));
        let slowest = SLOWEST_RETRY.min(timeout / 4 * 3).max(quick);
        let resume_at = s.now + quick.saturating_mul(times).min(slowest);
        *self = Self { failures: 0, contended, resume_at };
    }

    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }
}
