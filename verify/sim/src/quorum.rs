//! The plan for a quorum: its nodes, their clocks, and the assumptions that hold.

use crate::{backend::SimBackend, node::SimNode, world::World};
use crate::{
    clock::StoreClock,
    plan::{Plan, Trouble, pick},
};
use lock_core::{
    clock::Clock,
    quorum::{Member, QuorumBackend},
};
use lock_testkit::{Seed, Stream, planted::PlantedBug};
use std::{sync::Arc, time::Duration};

pub(crate) const NODES: usize = 3;

/// A quorum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quorum {
    pub(crate) max_lease: Duration,
    /// `true` if its nodes lose nothing and are declared durable.
    pub(crate) durable: bool,
    /// `true` if its clocks step. The order of tokens still holds, but nothing else is guaranteed.
    pub(crate) timeless: bool,
}

impl Plan {
    /// Creates a run over a quorum. It is based on the run over one store.
    pub(crate) fn quorum(seed: Seed) -> Self {
        let mut plan = Self::single(seed);
        let dice = &mut Seed::new(seed.get().rotate_left(29) ^ 0x0001_AC1E).stream();
        let (durable, timeless) = (dice.chance(0.3), dice.chance(0.25));
        let longest = plan.max_lease();
        plan.quorum = Some(Quorum { max_lease: longest.max(Duration::from_secs(5)), durable, timeless });
        plan.processes = plan.processes.min(3);
        plan.clients = plan.clients.min(3);
        plan.names.truncate(2);
        // Operations of a quorum go to all of its nodes, so the same number of holds takes more events.
        plan.events *= 2;
        plan.batching = None;
        plan.clocks = clocks(dice, plan.clocks[0].clone());
        plan.troubles = troubles(&plan.troubles, durable, timeless);
        if timeless {
            plan.retention = None;
        }
        plan
    }
}

impl Quorum {
    /// Returns the quorum for one life of a process, whose links start with this one.
    pub(crate) fn backend(
        self,
        world: &Arc<World>,
        first: usize,
        bug: Option<PlantedBug>,
        clock: Arc<dyn Clock>,
        random: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> QuorumBackend {
        let durable = self.durable || bug == Some(PlantedBug::NoQuarantine);
        let member = |node: usize| {
            let backend = SimBackend { world: world.clone(), link: first + node, bug };
            let member = Member::new(format!("node-{node}"), SimNode(backend));
            if durable { member.durable() } else { member }
        };
        let builder = QuorumBackend::builder((0..NODES).map(member)).max_lease(self.max_lease);
        let quorum = builder.clock(clock).random(Arc::new(random)).build();
        quorum.expect("three nodes and a longest lease of some seconds")
    }
}

/// Draws clocks that differ by less than a vote allows. Occasionally one is completely wrong.
fn clocks(dice: &mut Stream, first: StoreClock) -> Vec<StoreClock> {
    let apart = pick(dice, &[1, 100_000, 450_000]);
    let mut ahead: Vec<_> =
        (0..NODES).map(|_| i64::try_from(dice.below(2 * apart)).unwrap_or(0) - apart.cast_signed()).collect();
    if dice.chance(0.1) {
        ahead[NODES - 1] = pick(dice, &[-3_600_000_000, 3_600_000_000]);
    }
    ahead.into_iter().map(|ahead| first.ahead_by(ahead)).collect()
}

/// Draws troubles: no forced releases, no loss of data on durable nodes, and clock steps only where nothing depends
/// on them.
fn troubles(drawn: &[Trouble], durable: bool, timeless: bool) -> Vec<Trouble> {
    use Trouble::*;
    let mut troubles = drawn.to_vec();
    if !troubles.is_empty() {
        // Nodes that are unreachable, or return without their data, are the purpose of a quorum.
        troubles.extend([RestartEmpty, RestartKept, Partition, StorePause]);
        troubles.extend(timeless.then_some([StepAhead, StepBack]).into_iter().flatten());
    }
    let steps = [SmallStep, StepAhead, StepBack];
    let losses = [RestartEmpty, RestartOld];
    troubles.retain(|trouble| {
        let may_step = timeless || !steps.contains(trouble);
        let may_lose = !(durable || timeless) || !losses.contains(trouble);
        may_step && may_lose && *trouble != Force
    });
    troubles.sort_unstable();
    troubles.dedup();
    troubles
}
