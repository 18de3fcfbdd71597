//! The model as seen by stateright.

use crate::{act::Act, config::Config, drain::drain, laws::Law, world::World};
use stateright::{Model, Property};

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
