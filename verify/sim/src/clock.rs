//! The clocks of a run. Each process and each store has its own, with its own speed, and none shows the true time.

use lock_core::clock::{Clock, Moment, TestClock, UtcTime};
use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};
use tokio::time::Instant;

const RUNNING: u64 = u64::MAX;

fn scale(time: u64, ppm: i64) -> u64 {
    let scaled = i128::from(time) * (1_000_000 + i128::from(ppm)) / 1_000_000;
    u64::try_from(scaled).unwrap_or(0)
}

/// The clock of a process. While the process is suspended, nothing in it can read the clock. So the clock is stopped
/// during the pause and jumps to the present time at its end, which is what a suspended process sees.
#[derive(Debug)]
pub(crate) struct ProcessClock {
    origin: Instant,
    ppm: i64,
    /// The initial lead, in µs.
    ahead: u64,
    wall_ahead: AtomicI64,
    /// Steps of the wall clock during a pause, which the process sees at its end.
    unseen_steps: AtomicI64,
    /// The true time at which it is stopped.
    stopped_at: AtomicU64,
}

impl ProcessClock {
    pub(crate) fn new(origin: Instant, ppm: i64, ahead: u64, wall_ahead: i64) -> Self {
        let stopped_at = AtomicU64::new(RUNNING);
        let wall_ahead = AtomicI64::new(wall_ahead);
        Self { origin, ppm, ahead, wall_ahead, unseen_steps: AtomicI64::new(0), stopped_at }
    }

    pub(crate) fn stop_at(&self, time: u64) {
        self.stopped_at.store(time, Ordering::Relaxed);
    }

    pub(crate) fn resume(&self) {
        self.stopped_at.store(RUNNING, Ordering::Relaxed);
        self.wall_ahead.fetch_add(self.unseen_steps.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn step_wall(&self, micros: i64) {
        match self.stopped_at.load(Ordering::Relaxed) {
            RUNNING => self.wall_ahead.fetch_add(micros, Ordering::Relaxed),
            _ => self.unseen_steps.fetch_add(micros, Ordering::Relaxed),
        };
    }

    /// Returns its reading at this true time.
    pub(crate) fn at(&self, time: u64) -> Moment {
        Moment::from_micros(self.ahead + scale(time, self.ppm))
    }

    /// Returns the first true time at which it shows `moment` or later.
    pub(crate) fn when(&self, moment: Moment) -> u64 {
        let shown = i128::from(moment.as_micros().saturating_sub(self.ahead)) * 1_000_000;
        let speed = 1_000_000 + i128::from(self.ppm);
        u64::try_from((shown + speed - 1) / speed).unwrap_or(u64::MAX)
    }

    fn true_time(&self) -> u64 {
        match self.stopped_at.load(Ordering::Relaxed) {
            RUNNING => u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(0),
            stopped_at => stopped_at,
        }
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Moment {
        self.at(self.true_time())
    }

    fn wall(&self) -> UtcTime {
        let steady = TestClock::WALL_AT_START + self.now().since(Moment::START);
        let micros = steady.as_micros().saturating_add_signed(self.wall_ahead.load(Ordering::Relaxed));
        UtcTime::from_micros(micros)
    }
}

/// The clock of a store, which may step.
#[derive(Debug, Clone)]
pub(crate) struct StoreClock {
    ppm: i64,
    /// The initial and the current lead, in µs.
    began: i64,
    ahead: i64,
    /// The largest distance from the initial offset that its steps caused.
    farthest: u64,
}

impl StoreClock {
    pub(crate) fn new(ppm: i64, ahead: i64) -> Self {
        Self { ppm, began: ahead, ahead, farthest: 0 }
    }

    /// Returns a clock of the same speed that leads this one from the beginning.
    pub(crate) fn ahead_by(&self, micros: i64) -> Self {
        Self::new(self.ppm, self.ahead + micros)
    }

    /// Returns the step that would undo all steps.
    pub(crate) fn step_back(&self) -> i64 {
        self.began - self.ahead
    }

    pub(crate) fn step(&mut self, micros: i64) {
        self.ahead += micros;
        self.farthest = self.farthest.max((self.ahead - self.began).unsigned_abs());
    }

    pub(crate) fn farthest_step(&self) -> Duration {
        Duration::from_micros(self.farthest)
    }

    pub(crate) fn at(&self, time: u64) -> UtcTime {
        let steady = TestClock::WALL_AT_START.as_micros() + scale(time, self.ppm);
        UtcTime::from_micros(steady.saturating_add_signed(self.ahead))
    }

    /// Returns the true time of the first microsecond at which a lease with this remaining time has ended.
    pub(crate) fn end_of_lease(&self, time: u64, remaining: Duration) -> u64 {
        let now = self.at(time);
        let end =
            (now.as_millis() + u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX >> 20) + 1) * 1000;
        let left = i128::from(end - now.as_micros()) * 1_000_000 / (1_000_000 + i128::from(self.ppm));
        time + u64::try_from(left).unwrap_or(u64::MAX >> 1)
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
