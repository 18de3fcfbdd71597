//! A thread that wakes the timekeepers that their runtime does not wake in time.
//!
//! One thread of a tokio runtime polls its timers and sockets for all others. When that thread takes the only event
//! there is and runs a task that blocks, no other thread takes its place until something from outside wakes one: all
//! timers of the runtime stand still, and every lease would run out. What is woken from here is from outside.
//!
//! The thread is one for the process, and runs as long as there are timekeepers to watch. It needs real time: factories
//! with a clock of their own do without it.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

/// An alarm whose task may not be woken in time.
pub(super) trait Overdue: Send + Sync {
    /// Wakes the task if its turn is overdue, and returns when to look again.
    fn wake_if_overdue(&self, now: Instant) -> Option<Instant>;
}

/// How late a turn may be before it is taken for one that does not come.
pub(super) const GRACE: Duration = Duration::from_millis(20);

static WATCHED: Mutex<Watched> = Mutex::new(Watched { alarms: Vec::new(), look_at: None, runs: false });
static CHANGED: Condvar = Condvar::new();

struct Watched {
    alarms: Vec<Weak<dyn Overdue>>,
    /// When the thread looks next.
    look_at: Option<Instant>,
    runs: bool,
}

fn watched() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the alarm as long as it lives.
pub(super) fn watch(alarm: Weak<dyn Overdue>) {
    let mut watched = watched();
    watched.alarms.push(alarm);
    if !watched.runs {
        let spawned = thread::Builder::new().name("lock-backstop".to_owned()).spawn(run);
        watched.runs = spawned.is_ok();
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for the backstop: a runtime whose threads block may lose locks");
        }
    }
}

/// Looks at the alarms at this time, or earlier.
pub(super) fn look_at(at: Instant) {
    let mut watched = watched();
    if watched.look_at.is_none_or(|look_at| at < look_at) {
        watched.look_at = Some(at);
        CHANGED.notify_one();
    }
}

fn run() {
    loop {
        let alarms: Vec<_> = {
            let mut watched = watched();
            watched.alarms.retain(|alarm| alarm.strong_count() > 0);
            watched.look_at = None;
            watched.alarms.iter().filter_map(Weak::upgrade).collect()
        };
        let now = Instant::now();
        let next = alarms.iter().filter_map(|alarm| alarm.wake_if_overdue(now)).min();
        drop(alarms);
        let mut watched = watched();
        watched.alarms.retain(|alarm| alarm.strong_count() > 0);
        if watched.alarms.is_empty() {
            watched.runs = false;
            return;
        }
        // What came meanwhile counts as well.
        watched.look_at = watched.look_at.into_iter().chain(next).min();
        let wait = watched.look_at.map(|at| at.saturating_duration_since(Instant::now()));
        match wait {
            Some(wait) => drop(CHANGED.wait_timeout(watched, wait)),
            None => drop(CHANGED.wait(watched)),
        }
    }
}
