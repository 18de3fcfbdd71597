//! The times of the next repeated requests. They are sent at whole seconds on the lock factory's clock, so schedulers
//! that share a factory send theirs at the same times, and a ledger can combine them in one call.

use lock_core::clock::Moment;
use std::time::Duration;
use tokio::time::Instant;

/// The time between the registrations of a leader.
pub(super) const REGISTRATION_INTERVAL: Duration = Duration::from_secs(60);

/// The time between heartbeats, which also read the controls.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The times of heartbeats, and of requests that are sent together with one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beats {
    first: Instant,
}

impl Beats {
    /// Creates the beats from one reading of both clocks.
    fn new(now: Instant, moment: Moment) -> Self {
        let begun = Duration::from_micros(moment.as_micros());
        Self { first: now + (HEARTBEAT_INTERVAL - Duration::from_nanos(begun.subsec_nanos().into())) }
    }

    /// Returns the last beat within `time` from now, or the end of `time` if there is none.
    pub(super) fn within(self, now: Instant, time: Duration) -> Instant {
        let until = now + time;
        match until.checked_duration_since(self.first) {
            Some(since) if time >= HEARTBEAT_INTERVAL => self.first + Duration::from_secs(since.as_secs()),
            _ => until,
        }
    }
}

/// The times of the next repeated requests.
pub(super) struct Timers {
    pub(super) beats: Beats,
    pub(super) registration: Instant,
    pub(super) heartbeat: Instant,
    pub(super) open_runs: Instant,
    pub(super) renewal: Instant,
}

impl Timers {
    /// Makes all requests due now, by one reading of both clocks.
    pub(super) fn new(now: Instant, moment: Moment) -> Self {
        let beats = Beats::new(now, moment);
        Self { beats, registration: now, heartbeat: now, open_runs: now, renewal: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[tokio::test(start_paused = true)]
    async fn schedulers_with_one_clock_share_their_beats() {
        let begin = Instant::now();
        let beats = [0, 300, 1_700].map(|at| Beats::new(begin + ms(at), Moment::START + ms(at)));
        for beats in beats {
            for (now, next) in [(2_000, 3_000), (2_001, 3_000), (2_999, 3_000), (3_000, 4_000)] {
                assert_eq!(beats.within(begin + ms(now), HEARTBEAT_INTERVAL), begin + ms(next));
            }
            assert_eq!(beats.within(begin + ms(2_300), ms(10_000)), begin + ms(12_000));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn short_intervals_are_kept() {
        let beats = Beats::new(Instant::now(), Moment::START);
        let now = Instant::now() + ms(2_300);
        assert_eq!(beats.within(now, ms(333)), now + ms(333));
    }
}
