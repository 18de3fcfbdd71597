//! A thread that wakes timekeepers that their runtime does not wake in time.
//!
//! One thread of a tokio runtime polls its timers and sockets for all others. If that thread takes the only pending
//! event and runs a task that blocks, no other thread takes over until one is woken from outside the runtime. Until
//! then all timers of the runtime stand still, and every lease would expire. This thread wakes a task from outside.
//!
//! There is one thread per process, which runs as long as there are timekeepers to watch. It needs real time:
//! factories with their own clock do not use it.

use crate::sync::{Mutex, lock, rank};
use std::{
    io,
    sync::Weak,
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// An alarm whose task may not be woken in time.
pub(super) trait Overdue: Send + Sync {
    /// Wakes the task if its turn is overdue, and returns the time of the next check.
    fn wake_if_overdue(&self, now: Instant) -> Option<Instant>;
}

/// The delay after which a turn is considered overdue.
pub(super) const GRACE: Duration = Duration::from_millis(20);

static WATCHED: Mutex<rank::Backstop, Watched> =
    Mutex::new(Watched { alarms: Vec::new(), look_at: None, thread: None });

struct Watched {
    alarms: Vec<Weak<dyn Overdue>>,
    /// The time of the next check.
    look_at: Option<Instant>,
    /// The thread, while it is running.
    thread: Option<Thread>,
}

impl Watched {
    fn ensure_thread(&mut self) -> io::Result<()> {
        if self.thread.is_none() {
            let spawned = thread::Builder::new().name("lock-backstop".to_owned()).spawn(run)?;
            self.thread = Some(spawned.thread().clone());
        }
        Ok(())
    }
}

/// Watches the alarm for as long as it exists.
pub(super) fn watch(alarm: Weak<dyn Overdue>) {
    let ensured = {
        let mut watched = lock(&WATCHED);
        watched.alarms.push(alarm);
        watched.ensure_thread()
    };
    if let Err(error) = ensured {
        tracing::warn!(%error, "failed to start the backstop thread: leases may be lost while runtime threads are \
            blocked");
    }
}

/// Makes the thread check the alarms at this time or earlier.
pub(super) fn look_at(at: Instant) {
    let mut watched = lock(&WATCHED);
    if watched.look_at.is_none_or(|look_at| at < look_at) {
        watched.look_at = Some(at);
        watched.thread.iter().for_each(Thread::unpark);
    }
}

fn run() {
    loop {
        let alarms: Vec<_> = {
            let mut watched = lock(&WATCHED);
            watched.alarms.retain(|alarm| alarm.strong_count() > 0);
            watched.look_at = None;
            watched.alarms.iter().filter_map(Weak::upgrade).collect()
        };
        let now = Instant::now();
        let next = alarms.iter().filter_map(|alarm| alarm.wake_if_overdue(now)).min();
        drop(alarms);
        let look_at = {
            let mut watched = lock(&WATCHED);
            watched.alarms.retain(|alarm| alarm.strong_count() > 0);
            if watched.alarms.is_empty() {
                watched.thread = None;
                return;
            }
            // Includes requests made in the meantime.
            watched.look_at = watched.look_at.into_iter().chain(next).min();
            watched.look_at
        };
        // Returns immediately if an earlier time has been set in the meantime.
        match look_at {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
}
