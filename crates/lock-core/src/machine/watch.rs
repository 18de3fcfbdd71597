//! The subscription to wake-ups: made when an attempt finds the lock busy, and kept for a while after the last waiter
//! has left.

use super::{
    backoff,
    command::Command,
    context::Ctx,
    event::WatchAnswer,
    state::{Machine, Watch, WatchState},
};
use crate::time::Moment;
use std::time::Duration;

/// The number of consecutive failed attempts to unsubscribe after which the connection, and with it the subscription,
/// is considered dead.
const MAX_FAILURES: u32 = 10;

/// The time for which a subscription is kept after the last waiter has left, in case it is needed again.
const LINGER: Duration = Duration::from_secs(2);

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

    fn failed(&mut self, s: &mut Ctx<'_>) {
        self.failures += 1;
        self.state = WatchState::InDoubt(s.now + backoff::back_off(s, self.failures, backoff::SLOWEST_RETRY));
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

    pub(super) fn wake_at(&self) -> Option<Moment> {
        match self.state {
            WatchState::InDoubt(at) => Some(at),
            WatchState::On => self.linger_until,
            WatchState::Off | WatchState::Asking | WatchState::Leaving => None,
        }
    }
}

impl Machine {
    pub(super) fn on_watched(&mut self, s: &mut Ctx<'_>, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Acknowledged => {
                self.watch.state = WatchState::On;
                self.watch.failures = 0;
                // The release may have happened between the busy reply and the acknowledgement.
                self.on_woken(s);
            }
            WatchAnswer::Failed => self.watch.failed(s),
        }
    }

    pub(super) fn on_unwatched(&mut self, s: &mut Ctx<'_>, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Failed if self.watch.failures < MAX_FAILURES => self.watch.failed(s),
            WatchAnswer::Acknowledged | WatchAnswer::Failed => {
                self.watch.state = WatchState::Off;
                self.watch.failures = 0;
            }
        }
    }

    pub(super) fn tend_watch(&mut self, s: &mut Ctx<'_>) {
        if !self.config.push {
            return;
        }
        let (waiting, closed) = (self.queue.has_line(), self.closed);
        let watch = &mut self.watch;
        if waiting {
            watch.linger_until = None;
        }
        match watch.state {
            WatchState::Off if waiting && watch.wanted => watch.ask(s),
            WatchState::Off if !waiting => watch.wanted = false,
            WatchState::InDoubt(at) if waiting && at <= s.now => watch.ask(s),
            WatchState::InDoubt(at) if !waiting && (at <= s.now || closed) => watch.leave(s),
            WatchState::On if !waiting => {
                let linger = if closed { Duration::ZERO } else { LINGER };
                let until = watch.linger_until.map_or(s.now + linger, |at| at.min(s.now + linger));
                watch.linger_until = Some(until);
                if until <= s.now {
                    watch.leave(s);
                }
            }
            _ => {}
        }
    }
}
