//! How long this process may keep a lock to itself while others wait for it.
//!
//! A process that releases and has a local waiter asks again at once, long before a wake-up reaches another process: a
//! busy process would keep all others out for ever. So after some turns in a row, and after each chain of hand-offs that
//! ends while somebody still waits here, it steps back for a moment if others listen. Where the store cannot tell who
//! listens, it does so after many turns in any case.

use super::context::Ctx;
use crate::time::Moment;
use std::time::Duration;

/// Turns in a row after which others come first, if they listen.
const TURNS: u32 = 16;
/// Time in a row after which others come first, if they listen.
const STREAK: Duration = Duration::from_millis(100);
/// Holds in a row after which others come first where nobody knows whether they listen.
const HOLDS_REGARDLESS: u32 = 1024;
/// How long others have the lock to themselves: time for a wake-up and a request.
const STEP_BACK: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Fairness {
    taken: u32,
    /// Hand-offs in the same row.
    passes: u32,
    /// A chain of hand-offs ended although somebody still waited for this process.
    chain_ended: bool,
    since: Moment,
    freed_at: Moment,
    /// No acquire before that.
    pub(super) others_until: Moment,
    /// Until then the row goes on with the next acquire, so a machine with nothing else to do is kept.
    remembered_until: Option<Moment>,
    /// Our own release will wake us, too, if we are subscribed; that is no turn of somebody else.
    echo_expected: bool,
}

impl Fairness {
    /// The store granted the lock to this process.
    pub(super) fn took(&mut self, now: Moment) {
        if self.taken == 0 || now.since(self.freed_at) >= STEP_BACK {
            self.others_had_their_turn();
            self.since = now;
        }
        self.taken += 1;
    }

    /// The hand-offs in a row since another process had its turn. Each bypasses a waiter of another process.
    pub(super) fn passes(&self) -> u32 {
        self.passes
    }

    pub(super) fn passed_on(&mut self) {
        self.passes += 1;
    }

    pub(super) fn chain_ended(&mut self) {
        self.chain_ended = true;
    }

    /// Another process holds the lock, so it had its turn.
    pub(super) fn other_has_it(&mut self) {
        self.others_had_their_turn();
    }

    fn others_had_their_turn(&mut self) {
        self.taken = 0;
        self.passes = 0;
    }

    /// Somebody released the lock; if it was not us, others had their turn.
    pub(super) fn woken(&mut self, now: Moment) {
        if !std::mem::take(&mut self.echo_expected) {
            self.others_until = self.others_until.min(now);
        }
    }

    /// The lock is free again. `listeners` is the store's count, if it counts them; `subscribed` says that this process is one of them.
    pub(super) fn freed(&mut self, s: &mut Ctx<'_>, listeners: Option<u32>, subscribed: bool) {
        let others_listen = listeners.map(|all| all > u32::from(subscribed));
        self.echo_expected = subscribed;
        self.freed_at = s.now;
        let chain_ended = std::mem::take(&mut self.chain_ended);
        let long = chain_ended || self.taken >= TURNS || s.now.since(self.since) >= STREAK;
        let steps_back = match others_listen {
            Some(others_listen) => others_listen && long,
            None => self.taken + self.passes >= HOLDS_REGARDLESS,
        };
        if steps_back {
            self.others_had_their_turn();
            self.others_until = s.now + STEP_BACK + s.jitter(STEP_BACK / 4);
        }
        if others_listen == Some(false) {
            // Nobody was bypassed.
            self.passes = 0;
        }
        let until = self.others_until.max(s.now + STEP_BACK);
        self.remembered_until = (others_listen != Some(false)).then_some(until);
    }

    /// When a machine with nothing else to do may be forgotten. A lone task that takes the lock again and again would
    /// otherwise begin a new row with each turn, and keep others out for ever.
    pub(super) fn remembered_until(&self) -> Option<Moment> {
        self.remembered_until
    }

    pub(super) fn pass_time(&mut self, now: Moment) {
        self.remembered_until.take_if(|until| *until <= now);
    }
}
