//! The arrival times of orders.

use std::time::Duration;

/// The arrival model of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Profile {
    /// Orders at a fixed rate, evenly spaced.
    Open {
        /// Orders per second, above 0.
        rate: f64,
    },
    /// Like `Open`, but at five times the rate during every fifth second.
    Burst {
        /// Orders per second outside of the bursts, above 0.
        rate: f64,
    },
    /// A fixed number of clients, each with one order in flight.
    Closed {
        /// Number of clients.
        clients: u32,
    },
}

/// An endless iterator over intended start times in an open model, relative to the start of the
/// load.
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
    /// Returns the arrivals, or `None` in the closed model, where the clients determine the times.
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
    fn closed_model_has_no_fixed_arrivals() {
        assert!(Profile::Closed { clients: 8 }.arrivals().is_none());
    }
}
