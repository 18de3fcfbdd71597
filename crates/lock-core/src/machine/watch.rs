//! The subscription to wake-ups: made when an attempt finds the lock busy, and kept for a while after the last waiter
//! has left.

use super::{
    command::{Command, Ctx, SLOWEST_RETRY},
    event::WatchAnswer,
};
use crate::time::Moment;
use std::time::Duration;

/// The number of consecutive failed attempts to unsubscribe after which the connection, and with it the subscription,
/// is considered dead.
const MAX_FAILURES: u32 = 10;

/// The time for which a subscription is kept after the last waiter has left, in case it is needed again.
const LINGER: Duration = Duration::from_secs(2);

/// The subscription to a name; at most one per process and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    state: WatchState,
    /// Set if an attempt has found the lock busy since the subscription was last off.
    wanted: bool,
    failures: u32,
    linger_until: Option<Moment>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum WatchState {
    #[default]
    Off,
    Asking,
    On,
    /// Not off yet: the `Unwatch` would undo a new `Watch` that overtakes it.
    Leaving,
    /// Unknown. From this moment on, the subscription is requested again or, if nobody waits, ended. A forgotten
    /// subscription would stay forever.
    InDoubt(Moment),
}

impl Watch {
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    pub(super) fn is_off(&self) -> bool {
        self.state == WatchState::Off
    }

    pub(super) fn is_on(&self) -> bool {
        self.state == WatchState::On
    }

    pub(super) fn wake_at(&self) -> Option<Moment> {
        match self.state {
            WatchState::InDoubt(at) => Some(at),
            WatchState::On => self.linger_until,
            WatchState::Off | WatchState::Asking | WatchState::Leaving => None,
        }
    }

    pub(super) fn on_watched(&mut self, s: &mut Ctx<'_>, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Acknowledged => {
                self.state = WatchState::On;
                self.failures = 0;
            }
            WatchAnswer::Failed => self.failed(s),
        }
    }

    pub(super) fn on_unwatched(&mut self, s: &mut Ctx<'_>, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Failed if self.failures < MAX_FAILURES => self.failed(s),
            WatchAnswer::Acknowledged | WatchAnswer::Failed => {
                self.state = WatchState::Off;
                self.failures = 0;
            }
        }
    }

    /// Subscribes or unsubscribes if it is time to. `waiting` states whether anybody waits for the lock, `closed`
    /// whether the factory is shutting down.
    pub(super) fn tend(&mut self, s: &mut Ctx<'_>, waiting: bool, closed: bool) {
        if waiting {
            self.linger_until = None;
        }
        match self.state {
            WatchState::Off if waiting && self.wanted => self.ask(s),
            WatchState::Off if !waiting => self.wanted = false,
            WatchState::InDoubt(at) if waiting && at <= s.now => self.ask(s),
            WatchState::InDoubt(at) if !waiting && (at <= s.now || closed) => self.leave(s),
            WatchState::On if !waiting => {
                let linger = if closed { Duration::ZERO } else { LINGER };
                let until = self.linger_until.map_or(s.now + linger, |at| at.min(s.now + linger));
                self.linger_until = Some(until);
                if until <= s.now {
                    self.leave(s);
                }
            }
            _ => {}
        }
    }

    fn failed(&mut self, s: &mut Ctx<'_>) {
        self.failures += 1;
        self.state = WatchState::InDoubt(s.retry_at(self.failures, SLOWEST_RETRY));
    }

    fn ask(&mut self, s: &mut Ctx<'_>) {
        self.state = WatchState::Asking;
        s.emit(Command::Watch);
    }

    fn leave(&mut self, s: &mut Ctx<'_>) {
        self.state = WatchState::Leaving;
        self.wanted = false;
        self.linger_until = None;
        s.emit(Command::Unwatch);
    }
}
