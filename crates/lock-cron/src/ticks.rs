//! The times of a schedule as a stream, for work that each node does on its own.

use crate::{plan, schedule::Schedule};
use futures_util::Stream;
use lock_core::clock::UtcTime;
use lock_core::clock::{BootClock, Clock};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// The maximum sleep, which limits the delay until clock steps and machine suspensions are
/// detected.
const MAX_SLEEP: Duration = Duration::from_secs(1);

impl Schedule {
    /// Returns a stream of the upcoming scheduled times. Each time is yielded when it is reached by
    /// this machine's clock.
    ///
    /// Use this for work that each node does for itself, such as clearing a local cache. It needs
    /// neither a store nor a [`Scheduler`](crate::Scheduler), and has no claims, history, timeouts
    /// or retries. For work that is done once in the fleet, register a
    /// [job](crate::Scheduler::job). To spread the nodes over an hour, use `H` and
    /// [`for_job`](Self::for_job) with the node name.
    ///
    /// ```no_run
    /// # async fn clear_cache() {}
    /// # fn main() -> Result<(), lock_cron::ScheduleError> {
    /// use lock_cron::Schedule;
    ///
    /// let schedule = Schedule::cron("H/5 * * * *")?.for_job("node-7")?;
    /// let clearing = tokio::spawn(async move {
    ///     let mut ticks = schedule.ticks();
    ///     while let Some(tick) = ticks.next().await {
    ///         // In a task of its own: a panic ends this run, and not those after it.
    ///         if let Err(panic) = tokio::spawn(clear_cache()).await {
    ///             eprintln!("the run of {tick} panicked: {panic}");
    ///         }
    ///     }
    /// });
    /// clearing.abort(); // at shutdown: the loop ends at its current await
    /// # Ok(()) }
    /// ```
    ///
    /// # Missed ticks
    /// Runs in such a loop never overlap. If several scheduled times have passed, because the body
    /// took longer than their interval or the machine was suspended, the stream returns the latest
    /// of them immediately and skips the others, like tokio's `MissedTickBehavior::Skip`.
    ///
    /// # Clock changes
    /// The clock is read at least once a second, so a forward step of the clock takes effect within
    /// a second. The ticks are strictly increasing: if the clock is set back, no time is returned
    /// twice. If the clock was far ahead and has been corrected, create a new stream.
    pub fn ticks(&self) -> Ticks {
        self.ticks_with_clock(Arc::new(BootClock::new()))
    }

    /// Returns the same stream as [`ticks`](Self::ticks), using the wall time of another clock. For
    /// tests that pause tokio's time, use `lock_core::clock::TestClock`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), lock_cron::ScheduleError> {
    /// use lock_core::clock::TestClock;
    /// use lock_cron::Schedule;
    /// use std::sync::Arc;
    ///
    /// let mut ticks = Schedule::cron("0 2 * * *")?.ticks_with_clock(Arc::new(TestClock::new()));
    /// assert_eq!(ticks.next().await.unwrap().to_string(), "2026-01-01T02:00:00Z");
    /// assert_eq!(ticks.next().await.unwrap().to_string(), "2026-01-02T02:00:00Z");
    /// # Ok(()) }
    /// ```
    pub fn ticks_with_clock(&self, clock: Arc<dyn Clock>) -> Ticks {
        let next = self.next_after(clock.wall());
        Ticks { schedule: self.clone(), clock, next, sleep: None }
    }
}

/// A stream that yields each time of a schedule when it is reached. Returned by
/// [`Schedule::ticks`].
///
/// The stream ends after the schedule's last tick. A schedule from [`Schedule::at`] has only one.
///
/// # Cancel safety
/// Dropping [`next`](Self::next) loses no tick.
///
/// # Panics
/// Panics if polled outside of a tokio runtime with time enabled.
#[derive(Debug)]
#[must_use = "a stream does nothing unless it is polled"]
pub struct Ticks {
    schedule: Schedule,
    clock: Arc<dyn Clock>,
    /// The first scheduled time that has been neither returned nor skipped.
    next: Option<UtcTime>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Ticks {
    /// Waits for the next tick. Returns `None` after the last one.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Dropping the future loses no tick.
    pub async fn next(&mut self) -> Option<UtcTime> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Takes the latest scheduled time up to `now`. `first` is the earliest of them.
    fn take(&mut self, first: UtcTime, now: UtcTime) -> UtcTime {
        let second = self.schedule.next_after(first);
        let Some(second) = second.filter(|second| *second <= now) else {
            self.next = second;
            return first;
        };
        let after_now = now + Duration::from_millis(1);
        let latest = plan::previous(&self.schedule, after_now, second.since(first)).unwrap_or(second);
        self.next = self.schedule.next_after(latest);
        latest
    }
}

impl Stream for Ticks {
    type Item = UtcTime;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<UtcTime>> {
        loop {
            let Some(next) = self.next else { return Poll::Ready(None) };
            let now = self.clock.wall();
            if next <= now {
                self.sleep = None;
                return Poll::Ready(Some(self.take(next, now)));
            }
            let wait = next.since(now).min(MAX_SLEEP);
            let slice = self.sleep.get_or_insert_with(|| Box::pin(sleep(wait)));
            ready!(slice.as_mut().poll(cx));
            self.sleep = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_can_move_between_threads() {
        fn bounds<T: Send + Unpin + 'static>() {}
        bounds::<Ticks>();
    }
}
