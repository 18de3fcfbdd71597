//! Fairness between processes: limits how long this process keeps a lock while others wait for it.
//!
//! A process that releases a lock and has a local waiter sends its next request immediately, long before a wake-up
//! reaches another process: a busy process would starve all others. After some consecutive turns, and after each chain
//! of hand-offs that ends with waiters left, it therefore pauses briefly if others are subscribed. If the store does
//! not report subscribers, it pauses after many turns in any case. After another process has released the lock, the
//! processes take turns.
//!
//! If the store cannot push, nobody subscribes and others poll, so that they meet a lock that is free for a moment by
//! luck only. A busy process then pauses for longer than the interval between two polls.

use super::command::Ctx;
use crate::time::Moment;
use std::time::Duration;

/// Consecutive turns after which other subscribed processes get a chance.
const TURNS: u32 = 16;
/// Duration of a series of consecutive turns after which other subscribed processes get a chance.
const STREAK: Duration = Duration::from_millis(100);
/// Consecutive holds after which others get a chance if their subscriptions are unknown.
const HOLDS_REGARDLESS: u32 = 1024;
/// The pause for the benefit of others: enough time for a wake-up and a request.
const STEP_BACK: Duration = Duration::from_millis(10);
/// The longest time between two polls of a store that cannot push.
pub(super) const SLOWEST_POLL: Duration = Duration::from_millis(250);
/// Consecutive holds after which others that poll get a chance.
const HOLDS_BEFORE_POLLS: u32 = 256;
/// Duration of a series of consecutive turns after which others that poll get a chance.
const STREAK_BEFORE_POLLS: Duration = Duration::from_secs(1);
/// The pause for others that poll: enough time for the next poll of each, with its jitter.
const STEP_BACK_FOR_POLLS: Duration = Duration::from_millis(300);
/// The delay per process that is ahead: enough time for that process's request to reach the store.
const HEAD_START: Duration = Duration::from_millis(1);
/// The maximum number of other processes that are counted. Some of them may only listen, so this limits the number of
/// turns before a process that waits sends its requests at once, and keeps the delay well below the pause of a process
/// that leaves the lock to others.
const MAX_OTHERS: u32 = 5;

/// The processes, besides this one, that may wait for a lock that was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// This many are subscribed.
    Subscribed(u32),
    /// The store did not count the subscribers.
    Unknown,
    /// The store cannot push.
    Poll,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Fairness {
    taken: u32,
    /// Hand-offs in the same streak.
    passes: u32,
    /// Set when a chain of hand-offs ends while this process still has waiters.
    chain_ended: bool,
    since: Moment,
    freed_at: Moment,
    /// The time until which acquires are delayed so that other processes go first.
    pub(super) others_until: Moment,
    /// The streak continues with an acquire before this time, so an idle machine is kept until then.
    remembered_until: Option<Moment>,
    echo: Echo,
    turns: TurnOrder,
}

/// The wake-up that this process, as a subscriber, gets for its own release. It does not mean that another process had
/// its turn. It may come before or after the reply to the release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Echo {
    #[default]
    None,
    /// The release was answered first.
    Expected,
    /// The wake-up came first.
    Heard,
}

impl Fairness {
    /// Records that the store granted the lock to this process. Only the time before the request was sent was left to
    /// others: the reply of a distant store takes longer than a step back.
    pub(super) fn took(&mut self, sent: Moment, now: Moment) {
        if self.taken == 0 || sent.since(self.freed_at) >= STEP_BACK {
            self.others_had_their_turn();
            self.since = now;
        }
        self.taken += 1;
        self.turns.took();
        // The wake-up of an earlier release, whose reply was lost.
        if self.echo == Echo::Heard {
            self.echo = Echo::None;
        }
    }

    /// Returns the number of hand-offs since another process had its turn. Each bypasses a waiter in another process.
    pub(super) fn passes(&self) -> u32 {
        self.passes
    }

    pub(super) fn passed_on(&mut self) {
        self.passes += 1;
    }

    pub(super) fn chain_ended(&mut self) {
        self.chain_ended = true;
    }

    /// Records that another process holds the lock and therefore has its turn. `in_turn` states whether the request was
    /// sent after the latest wake-up.
    pub(super) fn other_has_it(&mut self, in_turn: bool) {
        self.others_had_their_turn();
        if in_turn {
            self.turns.found_busy();
        }
    }

    fn others_had_their_turn(&mut self) {
        self.taken = 0;
        self.passes = 0;
    }

    /// Records a wake-up, and returns the time of the next request. If the lock was released by another process, others
    /// have had their turn, and the pause ends. `releasing` states whether this process is releasing the lock;
    /// `waits_until` is the time by which the front waiter, if any, needs a reply.
    pub(super) fn woken(&mut self, now: Moment, releasing: bool, waits_until: Option<Moment>) -> Moment {
        match self.echo {
            Echo::Expected => self.echo = Echo::None,
            Echo::None if releasing => self.echo = Echo::Heard,
            Echo::None | Echo::Heard => {
                let turn = now + self.turns.released_by_other();
                // Only a waiter that has the time lets others go first.
                self.others_until = if waits_until.is_some_and(|until| turn < until) { turn } else { now };
            }
        }
        self.others_until.max(now)
    }

    /// Returns the time from which a single attempt is sent. It does not wait for others to poll.
    pub(super) fn single_try_from(&self) -> Moment {
        self.others_until.min(self.freed_at + STEP_BACK + STEP_BACK / 4)
    }

    /// Records that the lock is free again. `subscribed` states whether this process is subscribed.
    pub(super) fn freed(&mut self, s: &mut Ctx<'_>, others: Others, subscribed: bool) {
        self.turns.counted(if let Others::Subscribed(others) = others { others } else { 0 });
        self.echo = match self.echo {
            Echo::None | Echo::Expected if subscribed => Echo::Expected,
            _ => Echo::None,
        };
        self.freed_at = s.now;
        let chain_ended = std::mem::take(&mut self.chain_ended);
        let (holds, streak) = (self.taken + self.passes, s.now.since(self.since));
        let (steps_back, pause) = match others {
            Others::Subscribed(0) => (false, STEP_BACK),
            Others::Subscribed(_) => (chain_ended || self.taken >= TURNS || streak >= STREAK, STEP_BACK),
            Others::Unknown => (holds >= HOLDS_REGARDLESS, STEP_BACK),
            Others::Poll => {
                (holds >= HOLDS_BEFORE_POLLS || streak >= STREAK_BEFORE_POLLS, STEP_BACK_FOR_POLLS)
            }
        };
        if steps_back {
            self.others_had_their_turn();
            self.others_until = s.now + pause + s.jitter(pause / 4);
        }
        let until = self.others_until.max(s.now + STEP_BACK);
        self.remembered_until = Some(until);
        if others == Others::Subscribed(0) {
            // No other process was bypassed.
            self.passes = 0;
            self.remembered_until = None;
        }
    }

    /// Returns the time until which an idle machine is kept. A single task that acquires the lock repeatedly would
    /// otherwise begin a new streak each time, and starve others forever.
    pub(super) fn remembered_until(&self) -> Option<Moment> {
        self.remembered_until
    }

    pub(super) fn pass_time(&mut self, now: Moment) {
        self.remembered_until.take_if(|until| *until <= now);
    }
}

/// The turn of this process among the processes that wait for a lock.
///
/// A release wakes all waiting processes at once. If all of them sent a request, the fastest would get the lock, often
/// the same one again, and the requests of the others would slow it down. So each process counts the releases since its
/// own turn. If it has seen as many as there are other processes, it is the one that has waited longest, and sends its
/// request at once. The others wait a moment for each process that they assume is ahead of them.
///
/// The order is a preference. A process that does not take its turn costs the others a short delay, and then counts as
/// absent until this process loses a turn. Among processes whose distances from the store differ by more than the head
/// start, the nearest is often first in spite of it. Wrong estimates cost time or order, never the lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct TurnOrder {
    /// Other subscribed processes, as counted by this process's latest release, at most [`MAX_OTHERS`].
    others: u32,
    /// Others that did not take their turn.
    absent: u32,
    /// Releases by others since this process last had the lock, at most [`MAX_OTHERS`].
    seen: u32,
    /// Set by a wake-up that makes this process the first, until a request is granted or finds the lock taken.
    is_first: bool,
}

impl TurnOrder {
    fn ahead(&self) -> u32 {
        self.others.saturating_sub(self.absent).saturating_sub(self.seen)
    }

    /// Records a release by another process. Returns the delay before the next request.
    fn released_by_other(&mut self) -> Duration {
        self.seen = MAX_OTHERS.min(self.seen + 1);
        let ahead = self.ahead();
        self.is_first = ahead == 0;
        HEAD_START * ahead
    }

    /// Records that this process got the lock. If it was not its turn, those ahead of it did not want the lock.
    fn took(&mut self) {
        if self.seen > 0 {
            self.absent += self.ahead();
        }
        self.seen = 0;
        self.is_first = false;
    }

    /// Records that another process got the lock before this process's request. If this process seemed to be first,
    /// more processes take their turns than it assumed.
    fn found_busy(&mut self) {
        if std::mem::take(&mut self.is_first) {
            self.absent = self.absent.saturating_sub(1);
        }
    }

    /// Records the number of other subscribed processes.
    fn counted(&mut self, others: u32) {
        self.others = others.min(MAX_OTHERS);
    }
}
