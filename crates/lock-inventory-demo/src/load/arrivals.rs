//! The times at which orders arrive in an open model.

use std::time::Duration;

/// How orders arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Profile {
    /// So many orders a second, evenly.
    Open {
        /// Orders per second, above 0.
        rate: f64,
    },
    /// As `Open`, but a second in five has five times as many.
    Burst {
        /// Orders per second outside of the bursts, above 0.
        rate: f64,
    },
    /// So many clients, each with one order under way.
    Closed {
        /// The number of clients.
        clients: u32,
    },
}

/// The intended starts of an open model, from the begin of the load on. The iterator does not end.
#[derive(Debug, Clone)]
pub struct Arrivals {
    interval: Duration,
    is_bursty: bool,
    next: Duration,
}

const BURST_EVERY: Duration = Duration::from_secs(5);
const BURST_LASTS: Duration = Duration::from_secs(1);
const BURST_FACTOR: u32 = 5;

impl Profile {
    /// The arrivals; `None` in the closed model, where clients decide.
    #[must_use]
    pub fn arrivals(self) -> Option<Arrivals> {
        let (rate, is_bursty) = match self {
            Self::Open { rate } => (rate, false),
            Self::Burst { rate } => (rate, true),
            Self::Closed { .. } => return None,
        };
        Some(Arrivals { interval: Duration::from_secs_f64(1.0 / rate), is_bursty, next: Duration::ZERO })
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        let since = now.as_nanos() % BURST_EVERY.as_nanos();
        let in_burst = self.is_bursty && since >= (BURST_EVERY - BURST_LASTS).as_nanos();
        self.next += self.interval / if in_burst { BURST_FACTOR } else { 1 };
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(profile: Profile, from: u64, to: u64) -> usize {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
        profile.arrivals().unwrap().skip_while(|at| *at < from).take_while(|at| *at < to).count()
    }

    #[test]
    fn open_model_spaces_arrivals_evenly() {
        let starts: Vec<_> = Profile::Open { rate: 100.0 }.arrivals().unwrap().take(4).collect();
        assert_eq!(starts, [0, 10, 20, 30].map(Duration::from_millis));
    }

    #[test]
    fn burst_has_five_times_the_rate_for_one_second_in_five() {
        let profile = Profile::Burst { rate: 100.0 };
        assert!((399..=401).contains(&within(profile, 0, 4)), "{}", within(profile, 0, 4));
        assert!((499..=501).contains(&within(profile, 4, 5)), "{}", within(profile, 4, 5));
        assert!((99..=101).contains(&within(profile, 5, 6)), "{}", within(profile, 5, 6));
    }

    #[test]
    fn closed_model_has_no_arrivals_of_its_own() {
        assert!(Profile::Closed { clients: 8 }.arrivals().is_none());
    }
}
