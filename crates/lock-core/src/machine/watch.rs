//! The subscription to wake-ups: made when a try found the lock busy, kept for a while after the last waiter.

use super::{Command, Machine, Moment, Step, WatchAnswer, pace};

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
    /// Off after a failure, until then.
    OffUntil(Moment),
    Asking,
    On,
    /// Not off yet: a new `Watch` that overtakes the `Unwatch` would be undone by it.
    Leaving,
}

impl Watch {
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self.state, State::Off)
    }

    pub(super) fn on_unwatched(&mut self) {
        self.state = State::Off;
    }

    pub(super) fn wake_at(&self) -> Option<Moment> {
        match self.state {
            State::OffUntil(at) => Some(at),
            State::On => self.linger_until,
            State::Off | State::Asking | State::Leaving => None,
        }
    }
}

impl Machine {
    pub(super) fn on_watched(&mut self, s: &mut Step<'_>, answer: WatchAnswer) {
        match answer {
            WatchAnswer::Acknowledged => {
                self.watch.state = State::On;
                self.watch.failures = 0;
                // The release may have happened between the busy answer and the acknowledgement.
                self.on_woken(s);
            }
            WatchAnswer::Failed => {
                self.watch.failures += 1;
                self.watch.state = State::OffUntil(s.now + pace::back_off(s, self.watch.failures));
            }
        }
    }

    pub(super) fn tend_watch(&mut self, s: &mut Step<'_>) {
        if !self.rules.push {
            return;
        }
        let waiting = self.queue.has_line();
        let watch = &mut self.watch;
        if let State::OffUntil(at) = watch.state
            && (at <= s.now || !waiting)
        {
            watch.state = State::Off;
        }
        if waiting {
            watch.linger_until = None;
        }
        match watch.state {
            State::Off if waiting && watch.wanted => {
                watch.state = State::Asking;
                s.say(Command::Watch);
            }
            State::Off if !waiting => watch.wanted = false,
            State::On if !waiting => {
                let linger = if self.closed { std::time::Duration::ZERO } else { self.rules.linger };
                let until = watch.linger_until.map_or(s.now + linger, |at| at.min(s.now + linger));
                watch.linger_until = Some(until);
                if until <= s.now {
                    *watch = Self::leaving();
                    s.say(Command::Unwatch);
                }
            }
            _ => {}
        }
    }

    fn leaving() -> Watch {
        Watch { state: State::Leaving, ..Watch::default() }
    }
}
