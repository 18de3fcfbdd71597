//! How long this process may keep a lock to itself while others wait for it.
//!
//! Whoever releases and has a local waiter asks again at once, long before a wake-up reaches another process: a
//! busy process would keep all others out for ever. So after some turns in a row it steps back for a moment when
//! others listen, and every so often regardless, since not every store can tell who listens.

use super::{Moment, Step};
use std::time::Duration;

/// Turns in a row after which others come first, if they listen.
const TURNS: u32 = 16;
/// Time in a row after which others come first, if they listen.
const STREAK: Duration = Duration::from_millis(100);
/// Turns in a row after which others come first, whether or not anybody is known to listen.
const TURNS_REGARDLESS: u32 = 1024;
/// How long others have the lock to themselves: time for a wake-up and a request.
const STEP_BACK: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Turns {
    taken: u32,
    since: Moment,
    freed_at: Moment,
    /// No acquire before that. A wake-up does not shorten it: our own release wakes us, too.
    pub(super) others_until: Moment,
}

impl Turns {
    /// The store granted the lock to this process.
    pub(super) fn took(&mut self, now: Moment) {
        if self.taken == 0 || now.since(self.freed_at) >= STEP_BACK {
            self.taken = 0;
            self.since = now;
        }
        self.taken += 1;
    }

    /// Another process holds the lock, so it had its turn.
    pub(super) fn other_has_it(&mut self) {
        self.taken = 0;
    }

    /// The lock is free again; `others_listen` as far as the store told.
    pub(super) fn freed(&mut self, s: &mut Step<'_>, others_listen: Option<bool>) {
        self.freed_at = s.now;
        let long = self.taken >= TURNS || s.now.since(self.since) >= STREAK;
        if others_listen == Some(true) && long || self.taken >= TURNS_REGARDLESS {
            self.taken = 0;
            self.others_until = s.now + STEP_BACK + s.jitter(STEP_BACK / 4);
        }
    }
}
