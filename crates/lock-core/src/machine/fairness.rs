//! How long this process may keep a lock to itself while others wait for it.
//!
//! A process that releases and has a local waiter asks again at once, long before a wake-up reaches another process: a
//! busy process would keep all others out for ever. So after some turns in a row it steps back for a moment if others
//! listen, and after many turns in any case, since not every store can tell who listens.

use super::context::Ctx;
use crate::time::Moment;
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
pub(super) struct Fairness {
    taken: u32,
    since: Moment,
    freed_at: Moment,
    /// No acquire before that.
    pub(super) others_until: Moment,
    /// Our own release will wake us, too, if we are subscribed; that is no turn of somebody else.
    echo_expected: bool,
}

impl Fairness {
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

    /// Somebody released the lock; if it was not us, others had their turn.
    pub(super) fn woken(&mut self, now: Moment) {
        if !std::mem::take(&mut self.echo_expected) {
            self.others_until = self.others_until.min(now);
        }
    }

    /// The lock is free again. `listeners` as far as the store told, `subscribed` if we are one of them.
    pub(super) fn freed(&mut self, s: &mut Ctx<'_>, listeners: Option<u32>, subscribed: bool) {
        let others_listen = listeners.map(|all| all > u32::from(subscribed));
        self.echo_expected = subscribed;
        self.freed_at = s.now;
        let long = self.taken >= TURNS || s.now.since(self.since) >= STREAK;
        if others_listen == Some(true) && long || self.taken >= TURNS_REGARDLESS {
            self.taken = 0;
            self.others_until = s.now + STEP_BACK + s.jitter(STEP_BACK / 4);
        }
    }
}
