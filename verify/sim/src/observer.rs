//! Passes the events of a process to the oracle, and to the gauges that must be zero at the end.

use crate::{trace::Who, world::World};
use lock_core::{
    HoldEnd, LostReason,
    observer::{GrantSource, LockEvent, LockObserver, ReleaseKind},
};
use std::sync::{
    Weak,
    atomic::{AtomicI64, Ordering},
};

#[derive(Debug)]
pub(crate) struct Ear {
    pub(crate) world: Weak<World>,
    pub(crate) link: usize,
    pub(crate) holding: AtomicI64,
    pub(crate) waiting: AtomicI64,
}

impl Ear {
    pub(crate) fn new(world: Weak<World>, link: usize) -> Self {
        Self { world, link, holding: AtomicI64::new(0), waiting: AtomicI64::new(0) }
    }
}

fn lost(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "lost: expired",
        LostReason::Gone => "lost: gone",
        LostReason::MaxHold => "lost: max hold",
        LostReason::Unclaimed => "lost: unclaimed",
        LostReason::ShutDown => "lost: shut down",
        _ => "lost: for another reason",
    }
}

impl LockObserver for Ear {
    fn on_event(&self, event: &LockEvent<'_>) {
        let Some(world) = self.world.upgrade() else { return };
        let (who, link) = (Who::Link(self.link), self.link);
        world.with(|state| match *event {
            LockEvent::WaitStarted { .. } => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            LockEvent::WaitEnded { outcome, waited, .. } => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                state.note(who, "wait ended", (outcome as u64, waited.as_micros() as u64));
            }
            LockEvent::Granted { name, token, lease, source, .. } => {
                self.holding.fetch_add(1, Ordering::Relaxed);
                if source == GrantSource::HandOff {
                    state.count("hand-off");
                }
                state.note(who, "granted", (lease.number().get(), token.get()));
                state.oracle.granted(state.now, link, name, (lease, token));
            }
            LockEvent::Ended { name, token, lease, end, .. } => {
                self.holding.fetch_sub(1, Ordering::Relaxed);
                let (code, counted) = match end {
                    HoldEnd::Released => (0, None),
                    HoldEnd::Lost(reason) => (1 + reason as u64, Some(lost(reason))),
                    _ => panic!("an unknown end: {end:?}"),
                };
                state.note(who, "hold ended", (lease.number().get(), code));
                counted.into_iter().for_each(|what| state.count(what));
                let pause = &state.pauses[state.links[link].process];
                state.oracle.ended(state.now, (name, lease, token), end, &state.links[link], pause);
            }
            LockEvent::GuardReleased { outcome, kind: ReleaseKind::Explicit, .. } => {
                state.note(who, "release answered", (outcome.is_some().into(), 0));
            }
            LockEvent::Renewal { outcome, took, .. } => {
                state.note(who, "renewal", (outcome as u64, took.as_micros() as u64));
            }
            LockEvent::RenewalFailed { token, .. } => state.note(who, "suspect", (token.get(), 0)),
            _ => {}
        });
    }
}
