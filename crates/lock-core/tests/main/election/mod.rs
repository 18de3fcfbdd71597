//! Elections in virtual time: one leader, and what ends its term.

mod bodies;
mod gates;
mod options;
mod roles;
mod shards;
mod stopping;

use crate::support::World;
use lock_core::{
    LockFactory,
    clock::{Clock, Moment},
    election::Election,
    observer::{LockEvent, LockEventKind, LockObserver, TermEnd},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Lines of what happened, in order. Clones are the same log.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn write(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    /// The lines since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Writes this line when it is dropped.
    fn at_drop(&self, line: &'static str) -> AtDrop {
        AtDrop(self.clone(), line)
    }
}

struct AtDrop(Log, &'static str);

impl Drop for AtDrop {
    fn drop(&mut self) {
        self.0.write(self.1);
    }
}

/// Writes the terms of a factory, and the ends of its holds.
#[derive(Debug)]
struct Terms(Log);

impl LockObserver for Terms {
    fn on_event(&self, event: &LockEvent<'_>) {
        match &event.kind {
            LockEventKind::TermStarted { .. } => self.0.write("term started"),
            LockEventKind::TermEnded { end: TermEnd::Failed | TermEnd::Panicked, detail, .. } => {
                self.0.write(format!("term failed: {detail}"));
            }
            LockEventKind::TermEnded { end, .. } => self.0.write(format!("term {}", end.as_str())),
            LockEventKind::Ended { .. } => self.0.write("hold ended"),
            _ => {}
        }
    }
}

/// A candidate on the connection of the world that may fail, with its events.
fn candidate(world: &World) -> (Election, Log) {
    candidate_with(world, world.clock.clone())
}

fn candidate_with(world: &World, clock: Arc<dyn Clock>) -> (Election, Log) {
    let log = Log::default();
    let builder = LockFactory::builder(world.faulty.clone()).clock(clock);
    let locks = builder.observer(Terms(log.clone())).build().unwrap();
    (locks.election("x").unwrap(), log)
}

/// The time of the world, in seconds.
fn seconds(world: &World) -> f64 {
    world.clock.now().since(Moment::START).as_secs_f64()
}

/// Returns `true` if the pause, in seconds, is the delay with at most a quarter of jitter.
fn is_jittered(pause: f64, delay: Duration) -> bool {
    let delay = delay.as_secs_f64();
    // Timers have a resolution of 1 ms.
    (delay - 0.001..=1.25 * delay + 0.01).contains(&pause)
}
