//! The model as seen by stateright, and its paths in readable form.

use crate::{
    config::Config,
    drain::drain,
    laws::Law,
    message::{Act, Body},
    world::World,
};
use stateright::{Model, Property};
use std::fmt::Write;

/// A search.
#[derive(Debug, Clone)]
pub struct LockModel {
    /// Its settings.
    pub config: Config,
}

impl LockModel {
    /// Creates a search with these settings.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }
}

impl Model for LockModel {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.config)]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        world.acts(&self.config, acts);
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        let mut next = world.clone();
        next.step(&self.config, act);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            law::<{ Law::Exclusion as usize }>(),
            law::<{ Law::Deadline as usize }>(),
            law::<{ Law::OneHold as usize }>(),
            law::<{ Law::TokenOrder as usize }>(),
            law::<{ Law::Fence as usize }>(),
            law::<{ Law::OwnOnly as usize }>(),
            law::<{ Law::NoResurrection as usize }>(),
            law::<{ Law::NoOrphan as usize }>(),
            law::<{ Law::LossReportedOnce as usize }>(),
            law::<{ Law::Depth as usize }>(),
            law::<{ Law::NoDeadWait as usize }>(),
            law::<{ Law::BoundedWait as usize }>(),
            law::<{ Law::HandOff as usize }>(),
            law::<{ Law::NoPanic as usize }>(),
            law::<{ Law::MinimumHold as usize }>(),
            law::<{ Law::QueueOrder as usize }>(),
            Property::sometimes("a lock is held", |model: &Self, world: &World| holders(model, world) == 1),
            Property::sometimes("holds overlap after a loss of data", |model: &Self, world: &World| {
                holders(model, world) > 1
            }),
            Property::sometimes("a lease is handed off", |_: &Self, world: &World| {
                world.clients.iter().any(|client| client.chain.is_some_and(|chain| chain.passes > 0))
            }),
            Property::sometimes("a name is kept after its release", |model: &Self, world: &World| {
                world.is_kept(&model.config)
            }),
            Property::sometimes("permits are held side by side", |model: &Self, world: &World| {
                model.config.is_pool() && world.store.epoch == 0 && holders(model, world) > 1
            }),
            Property::sometimes("a waiter has a place in the store", |_: &Self, world: &World| {
                !world.store.permits(world.now).queue.is_empty()
            }),
            Property::sometimes("a hold is lost under its guard", |_: &Self, world: &World| {
                (0..world.clients.len()).any(|process| world.has_lost(process))
            }),
        ]
    }
}

fn law<const LAW: usize>() -> Property<LockModel> {
    Property::always(Law::ALL[LAW].name(), |model: &LockModel, world: &World| {
        !world.broken().has(Law::ALL[LAW]) && !broken_in_the_end(&model.config, world, Law::ALL[LAW])
    })
}

/// Returns `true` if the run to the end breaks a promise. States with prompt messages are left to the states that
/// follow them.
fn broken_in_the_end(config: &Config, world: &World, law: Law) -> bool {
    let ends = world.broken().is_none() && world.is_settled(config);
    ends && world.memo.get(|| drain(config, world, false).broken).has(law)
}

fn holders(model: &LockModel, world: &World) -> usize {
    (0..world.clients.len()).filter(|process| world.believes(&model.config, *process)).count()
}

/// Describes the steps to a state that breaks a promise, followed by the steps of the run to the end if only that run
/// breaks it. Also returns the number of steps.
#[must_use]
pub fn tell(config: &Config, path: Vec<(World, Option<Act>)>) -> (usize, String) {
    let mut text = String::new();
    let mut steps = 0;
    let last = path.last().map(|(world, _)| world.clone());
    for (world, act) in path {
        if let Some(act) = act {
            steps += 1;
            let _ = writeln!(text, "  {:7.3} s  {}", world.time().as_secs_f64(), words(act));
        }
    }
    if let Some(world) = last
        && world.broken().is_none()
    {
        let _ = writeln!(text, "  the faults stop");
        let end = drain(config, &world, true);
        for (time, act) in &end.acts {
            let _ = writeln!(text, "  {:7.3} s  … {}", time.as_secs_f64(), words(*act));
        }
        let _ = writeln!(text, "  broken in the end: {:?}", end.broken.first());
    }
    (steps, text)
}

fn words(act: Act) -> String {
    let (what, message) = match act {
        Act::Execute(message) => ("the store executes", message),
        Act::Deliver(message) => ("delivered", message),
        Act::Lose(message) => ("LOST", message),
        Act::Delay(message) => ("SLOW", message),
        Act::Duplicate(message) => ("TWICE", message),
        other => return format!("{other:?}"),
    };
    let who = message.process;
    let slow = if message.slow { "slow " } else { "" };
    match message.body {
        Body::Request { ask, mute, .. } => {
            format!(
                "{what}: {slow}request of {who}: {ask:?}{}",
                if mute { ", its answer is lost" } else { "" }
            )
        }
        Body::Reply { ask, answer, .. } => format!("{what}: {slow}reply to {who}: {answer:?} to {ask:?}"),
        Body::Wake => format!("{what}: {slow}wake-up of {who}"),
    }
}
