//! The promises, and the model as seen by stateright.

use super::{act::QuorumAct, config::QuorumConfig, world::QuorumWorld};
use stateright::{Model, Property};

/// A promise of a quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuorumLaw {
    /// There is at most one valid holder.
    Exclusion,
    /// No token is granted twice, and a hold whose votes were all cast after another was granted has the larger
    /// token.
    TokenOrder,
    /// No node grants a lease whose cleanup has already ended.
    NoOrphan,
    /// Clients do not wake one another endlessly while a third holds the lock.
    NoCircle,
}

impl QuorumLaw {
    /// Every variant.
    pub const ALL: [Self; 4] = [Self::Exclusion, Self::TokenOrder, Self::NoOrphan, Self::NoCircle];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "Q1 exclusion of valid holds",
            Self::TokenOrder => "Q2 token order",
            Self::NoOrphan => "Q3 no orphan behind an undo",
            Self::NoCircle => "Q4 no circle of wake-ups",
        }
    }
}

/// A search.
#[derive(Debug, Clone)]
pub struct QuorumModel {
    /// Its settings.
    pub config: QuorumConfig,
}

impl Model for QuorumModel {
    type State = QuorumWorld;
    type Action = QuorumAct;

    fn init_states(&self) -> Vec<QuorumWorld> {
        vec![QuorumWorld::new(&self.config)]
    }

    fn actions(&self, world: &QuorumWorld, acts: &mut Vec<QuorumAct>) {
        world.acts(&self.config, acts);
    }

    fn next_state(&self, world: &QuorumWorld, act: QuorumAct) -> Option<QuorumWorld> {
        let mut next = world.clone();
        next.step(&self.config, act);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            law::<0>(),
            law::<1>(),
            law::<2>(),
            law::<3>(),
            Property::sometimes("a lock is held", |_: &Self, world: &QuorumWorld| world.holders() == 1),
            Property::sometimes("a round is lost", |_: &Self, world: &QuorumWorld| world.has_loser()),
            Property::sometimes("two holds follow one another", |_: &Self, world: &QuorumWorld| {
                world.tokens().len() > 1
            }),
        ]
    }
}

fn law<const LAW: usize>() -> Property<QuorumModel> {
    Property::always(QuorumLaw::ALL[LAW].name(), |_: &QuorumModel, world: &QuorumWorld| {
        world.broken != Some(QuorumLaw::ALL[LAW])
    })
}
