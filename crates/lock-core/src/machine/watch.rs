//! The subscription to wake-ups: made when a try found the lock busy, kept for a while after the last waiter.

use super::{Command, Ctx, Machine, Moment, WatchAnswer, backoff};
use std::time::Duration;

/// Ends of a subscription that fail in a row, after which the connection that carries it is taken for dead and
/// the subscription with it.
const MOST_FAILURES: u32 = 10;

/// At most one subscription per process and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    state: State,
    /// A try found the lock busy since the subscription was last off.
    wanted: bool,
    failures: u32,
    linger_until: Option<Moment>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum State {
    #[default]
    Off,
    Asking,
    On,
    /// Not off yet: a new `Watch` that overtakes the `Unwatch` would be undone by it.
    Leaving,
    /// Nobody knows whether it stands. From then on it is asked for again or, if nobody waits, ended: a
    /// subscription that is forgotten would stay for ever.
    InDoubt(Moment),
}

impl Watch {
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    pub(super) fn is_off(&self) -> bool {
        self.state == State::Off
    }

    pub(super) fn is_on(&self) -> bool {
        self.state == State::On
    }

    fn failed(&mut self, s: &mut Ctx<'_>) {
        self.failures += 1;
        self.state = State::InDoubt(s.now + backoff::back_off(s, self.failures, backoff::SLOWEST_RETRY));
    }

    fn ask(&mut self, s: &mut Ctx<'_>) {
        self.state = State::Asking;
        s.emit(Command::Watch);
    }

    fn leave(&mut self, s: &mut Ctx<'_>) {
        self.state = State::Leaving;
        self.wanted = false;
        self.linger_until = None;
        s.emit(Command::Unwatch);
    }

    pub(super) fn wake_at(&self) -> Option<Moment> {
        match self.state {
            State::InDoubt(at) => Some(at),
            State::On => self.linger_until,
            State::Off | State::Asking | State::Leaving => None,
        }
    }
}

impl Machine {
    pub(super) fn on_watched(&mut self, s: &mut Ctx<'_>, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Acknowledged => {
                self.watch.state = State::On;
                self.watch.failures = 0;
                // The release may have happened between the busy answer and the acknowledgement.
                self.on_woken(s);
            }
            WatchAnswer::Failed => self.watch.failed(s),
        }
    }

    pub(super) fn on_unwatched(&mut self, s: &mut Ctx<'_>, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Failed if self.watch.failures < MOST_FAILURES => self.watch.failed(s),
            WatchAnswer::Acknowledged | WatchAnswer::Failed => {
                self.watch.state = State::Off;
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
            State::Off if waiting && watch.wanted => watch.ask(s),
            State::Off if !waiting => watch.wanted = false,
            State::InDoubt(at) if waiting && at <= s.now => watch.ask(s),
            State::InDoubt(at) if !waiting && (at <= s.now || closed) => watch.leave(s),
            State::On if !waiting => {
                let linger = if closed { Duration::ZERO } else { self.config.linger };
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
