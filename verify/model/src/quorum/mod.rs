//! A second model: rounds of a quorum, over the real decisions of `lock-quorum`
//! ([`Round`](lock_quorum::model::Round), [`Residue`](lock_quorum::model::Residue),
//! [`NodeClocks`]) and the real rules of its nodes.
//!
//! ```text
//!   client: round, residues ─▶ proposals, releases ─▶ ┌ in flight ┐ ─▶ rules of a node (real)
//!              ▲ votes ◀──────────────────────────────┤ lost, slow │      restarts without data
//! ```
//!
//! It has two modes. With time, clocks run at the same speed, and exclusion must hold. Without time, every lease may
//! end at any moment and clocks stand still. The order of tokens must still hold as long as the nodes keep their
//! counters.
//!
//! It is kinder than the worst case in two ways: a message that is not slow arrives before time advances, and of
//! those only proposals race. Also, the clients know the clocks of the nodes from the beginning.

mod node;
mod step;
mod world;

use lock_core::{
    FencingToken,
    backend::Floor,
    clock::{Moment, UtcTime},
};
use lock_quorum::model::NodeClocks;
use lock_testkit::planted::PlantedBug;
use stateright::{Model, Property};
use std::time::Duration;
pub use world::{QuorumAct, QuorumMessage, QuorumWorld, Sort};

/// The number of nodes in the model.
pub const NODES: usize = 3;

/// The initial clock of a node that is neither ahead nor behind.
const BEGIN: u64 = 1_000_000_000_000;
/// One step of time.
const TICK: Duration = Duration::from_secs(1);
/// Also the longest lease, and thus the time for which a node counts as young.
const LEASE: Duration = Duration::from_secs(3);

/// The faults that may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QuorumBudget {
    /// Messages that are lost.
    pub lose: u8,
    /// Messages that take longer than a step of time.
    pub slow: u8,
    /// Nodes that restart without their data.
    pub crash: u8,
    /// Clients that give up an undecided round.
    pub give_up: u8,
}

impl QuorumBudget {
    /// No faults.
    pub const NONE: Self = Self { lose: 0, slow: 0, crash: 0, give_up: 0 };
}

/// A search.
#[derive(Debug, Clone)]
pub struct QuorumConfig {
    /// The number of rounds that each client may start.
    pub rounds: Vec<u8>,
    /// The faults.
    pub faults: QuorumBudget,
    /// The number of steps of time in the search. Without it there is no time, and leases end at any moment.
    pub ticks: Option<u8>,
    /// The seconds by which the clock of each node is ahead.
    pub ahead: [i64; NODES],
    /// `true` if an outside party holds all nodes except the last.
    pub held: bool,
    /// The number of renewals that each holder may start.
    pub renewals: u8,
    /// `true` if the first client starts with a hold of all nodes except the last.
    pub holding: bool,
    /// `true` if the first client asks for tokens far above all clocks. Nodes then lose their data only while the
    /// others still have their counters.
    pub floor: bool,
    /// The planted bug.
    pub bug: Option<PlantedBug>,
    /// The only promise to check.
    pub only: Option<QuorumLaw>,
}

impl QuorumConfig {
    /// Creates a search in which each client may start this many rounds, without faults.
    #[must_use]
    pub fn new(rounds: &[u8], ticks: Option<u8>) -> Self {
        Self {
            rounds: rounds.to_vec(),
            faults: QuorumBudget::NONE,
            ticks,
            ahead: [0; NODES],
            held: false,
            renewals: 0,
            holding: false,
            floor: false,
            bug: None,
            only: None,
        }
    }

    /// Allows these faults.
    #[must_use]
    pub fn faults(self, faults: QuorumBudget) -> Self {
        Self { faults, ..self }
    }

    /// Sets the clocks of the nodes ahead by this many seconds.
    #[must_use]
    pub fn ahead(self, ahead: [i64; NODES]) -> Self {
        Self { ahead, ..self }
    }

    /// Lets an outside party hold all nodes except the last.
    #[must_use]
    pub fn held(self) -> Self {
        Self { held: true, ..self }
    }

    /// Allows each holder to start this many renewals.
    #[must_use]
    pub fn renewals(self, renewals: u8) -> Self {
        Self { renewals, ..self }
    }

    /// Lets the first client hold all nodes except the last.
    #[must_use]
    pub fn holding(self) -> Self {
        Self { holding: true, ..self }
    }

    /// Lets the first client ask for tokens far above all clocks.
    #[must_use]
    pub fn floor(self) -> Self {
        Self { floor: true, ..self }
    }

    /// Plants a bug and checks only the promise that it breaks.
    #[must_use]
    pub fn with(self, bug: PlantedBug, only: QuorumLaw) -> Self {
        Self { bug: Some(bug), only: Some(only), ..self }
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns the floor of this client.
    fn floor_of(&self, client: usize) -> Floor {
        (self.floor && client == 0).then(|| FencingToken::new(2 * BEGIN))
    }

    /// Returns the time of this node.
    fn time_of(&self, node: usize, ticks: u8) -> UtcTime {
        UtcTime::from_micros(BEGIN.saturating_add_signed(self.ahead[node] * 1_000_000)) + TICK * ticks.into()
    }

    /// Returns the clients' knowledge of the clocks.
    fn clocks(&self, ticks: u8) -> (NodeClocks, Moment) {
        let now = Moment::START + TICK * ticks.into();
        let mut clocks = NodeClocks::new(NODES);
        (0..NODES).for_each(|node| clocks.learn(node, now, now, self.time_of(node, ticks)));
        (clocks, now)
    }
}

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
