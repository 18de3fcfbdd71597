//! How quickly a failing backend is asked again.

use super::context::Ctx;
use crate::time::Moment;
use std::time::Duration;

const FIRST_RETRY: Duration = Duration::from_millis(50);
pub(super) const SLOWEST_RETRY: Duration = Duration::from_secs(2);

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
    /// No acquire before that.
    pub(super) resume_at: Moment,
}

impl Backoff {
    pub(super) fn failed(&mut self, s: &mut Ctx<'_>, timeout: Duration) {
        self.failures = self.failures.saturating_add(1);
        self.resume_at = s.now + back_off(s, self.failures, timeout);
    }

    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }
}
