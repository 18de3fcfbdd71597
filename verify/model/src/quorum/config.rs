//! What is searched.

use super::{NODES, model::QuorumLaw};
use lock_core::{
    FencingToken,
    backend::Floor,
    clock::{Moment, ServerTime},
    model::quorum::NodeClocks,
};
use lock_testkit::planted::PlantedBug;
use std::time::Duration;

/// The clock of a node that is neither ahead nor behind, at the beginning.
const BEGIN: u64 = 1_000_000_000_000;
/// One step of time.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// Also the longest lease, so that a node is young for so long.
pub(super) const LEASE: Duration = Duration::from_secs(3);

/// Faults that may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QuorumBudget {
    /// Messages that are lost.
    pub lose: u8,
    /// Messages that need longer than a step of time.
    pub slow: u8,
    /// Nodes that restart without their data.
    pub crash: u8,
    /// Clients that give an undecided round up.
    pub give_up: u8,
}

impl QuorumBudget {
    /// No faults.
    pub const NONE: Self = Self { lose: 0, slow: 0, crash: 0, give_up: 0 };
}

/// A search.
#[derive(Debug, Clone)]
pub struct QuorumConfig {
    /// The rounds that each client may begin.
    pub rounds: Vec<u8>,
    /// The faults.
    pub faults: QuorumBudget,
    /// The steps of time after which the search ends; without it, there is no time, and leases end at any moment.
    pub ticks: Option<u8>,
    /// Seconds by which the clock of each node is ahead.
    pub ahead: [i64; NODES],
    /// Somebody else holds all nodes but the last.
    pub held: bool,
    /// The renewals that each holder may begin.
    pub renewals: u8,
    /// The first client begins with a hold of all nodes but the last.
    pub holding: bool,
    /// The first client asks for tokens that are far above all clocks. Nodes lose their data only while the others have the
    /// counters that they had.
    pub floor: bool,
    /// The bug that is planted.
    pub bug: Option<PlantedBug>,
    /// The only promise that is looked at.
    pub only: Option<QuorumLaw>,
}

impl QuorumConfig {
    /// Clients that begin so many rounds each, without faults.
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

    /// With these faults.
    #[must_use]
    pub fn faults(self, faults: QuorumBudget) -> Self {
        Self { faults, ..self }
    }

    /// With nodes whose clocks are ahead by so many seconds.
    #[must_use]
    pub fn ahead(self, ahead: [i64; NODES]) -> Self {
        Self { ahead, ..self }
    }

    /// While somebody else holds all nodes but the last.
    #[must_use]
    pub fn held(self) -> Self {
        Self { held: true, ..self }
    }

    /// With holders that may begin so many renewals each.
    #[must_use]
    pub fn renewals(self, renewals: u8) -> Self {
        Self { renewals, ..self }
    }

    /// While the first client holds all nodes but the last.
    #[must_use]
    pub fn holding(self) -> Self {
        Self { holding: true, ..self }
    }

    /// With tokens of the first client that are far above all clocks.
    #[must_use]
    pub fn floor(self) -> Self {
        Self { floor: true, ..self }
    }

    /// With a bug, looking at the promise that it breaks.
    #[must_use]
    pub fn with(self, bug: PlantedBug, only: QuorumLaw) -> Self {
        Self { bug: Some(bug), only: Some(only), ..self }
    }

    pub(super) fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    /// The floor of this client.
    pub(super) fn floor_of(&self, client: usize) -> Floor {
        (self.floor && client == 0).then(|| FencingToken::new(2 * BEGIN))
    }

    /// The time of this node.
    pub(super) fn time_of(&self, node: usize, ticks: u8) -> ServerTime {
        ServerTime::from_micros(BEGIN.saturating_add_signed(self.ahead[node] * 1_000_000))
            + TICK * ticks.into()
    }

    /// What the clients know of the clocks.
    pub(super) fn clocks(&self, ticks: u8) -> (NodeClocks, Moment) {
        let now = Moment::START + TICK * ticks.into();
        let mut clocks = NodeClocks::new(NODES);
        (0..NODES).for_each(|node| clocks.learn(node, now, now, self.time_of(node, ticks)));
        (clocks, now)
    }
}
