//! Time that only advances when a test advances it, and its timers.

use crate::{
    clock::Clock,
    time::{Moment, UtcTime},
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

// A run uses one OS thread, on which all its threads take turns. Its globals are therefore std's thread locals.
thread_local! {
    static TIME: RefCell<Time> = const { RefCell::new(Time { now: Duration::ZERO, timers: BTreeMap::new(), next: 0 }) };
}

struct Time {
    now: Duration,
    timers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
}

/// Resets the time to the beginning, and removes all timers.
pub fn restart_time() {
    let before = TIME.take();
    drop(before);
}

impl Default for Time {
    fn default() -> Self {
        Self { now: Duration::ZERO, timers: BTreeMap::new(), next: 0 }
    }
}

/// Advances time and wakes the sleepers that are due.
pub fn advance(by: Duration) {
    let due = TIME.with_borrow_mut(|time| {
        time.now += by;
        let later = time.timers.split_off(&(time.now + Duration::from_nanos(1), 0));
        std::mem::replace(&mut time.timers, later)
    });
    due.into_values().for_each(Waker::wake);
}

/// Returns the time until the next timer. Returns `None` if all timers are more than a year away, which counts as
/// never.
#[must_use]
pub fn next_timer() -> Option<Duration> {
    const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    TIME.with_borrow(|time| {
        let ((at, _), _) = time.timers.first_key_value()?;
        (*at < FOR_EVER).then(|| at.saturating_sub(time.now))
    })
}

/// Returns the time since the beginning of the run.
#[must_use]
pub fn elapsed() -> Duration {
    now()
}

fn now() -> Duration {
    TIME.with_borrow(|time| time.now)
}

/// The clock of processes and the store.
#[derive(Debug)]
pub struct ExploredClock;

impl Clock for ExploredClock {
    fn now(&self) -> Moment {
        Moment::START + now()
    }

    fn wall(&self) -> UtcTime {
        UtcTime::from_micros(1_000_000_000_000_000) + now()
    }
}

pub(crate) struct Sleep {
    key: (Duration, u64),
}

pub(crate) fn sleep(duration: Duration) -> Sleep {
    TIME.with_borrow_mut(|time| {
        time.next += 1;
        Sleep { key: (time.now.saturating_add(duration), time.next) }
    })
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.key.0 <= now() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let before = TIME.with_borrow_mut(|time| time.timers.insert(self.key, waker));
        drop(before);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = TIME.with_borrow_mut(|time| time.timers.remove(&self.key));
        drop(waker);
    }
}

pub(crate) async fn timeout<F: Future>(duration: Duration, work: F) -> Result<F::Output, ()> {
    let (mut work, mut over) = (pin!(work), pin!(sleep(duration)));
    std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => over.as_mut().poll(cx).map(Err),
    })
    .await
}
