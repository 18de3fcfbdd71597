//! What a seed decides about a quorum: its nodes and their clocks, and which assumptions hold.

use crate::{backend::SimBackend, world::World};
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
    /// Its nodes lose nothing, and are declared so.
    pub(crate) durable: bool,
    /// Their clocks step. The order of tokens holds all the same, and nothing else is promised.
    pub(crate) timeless: bool,
}

impl Plan {
    /// A run over a quorum: as over one store, with what is different.
    pub(crate) fn quorum(seed: Seed) -> Self {
        let mut plan = Self::single(seed);
        let dice = &mut Seed::new(seed.get().rotate_left(29) ^ 0x0001_AC1E).stream();
        let (durable, timeless) = (dice.chance(0.3), dice.chance(0.25));
        let longest = plan.max_lease();
        plan.quorum = Some(Quorum { max_lease: longest.max(Duration::from_secs(5)), durable, timeless });
        plan.processes = plan.processes.min(3);
        plan.clients = plan.clients.min(3);
        plan.names.truncate(2);
        // Operations of a quorum go to all of its nodes: there are more events for the same number of holds.
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
    /// The quorum as one life of a process sees it, whose links begin with this one.
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
            let member = Member::new(format!("node-{node}"), backend);
            if durable { member.durable() } else { member }
        };
        let builder = QuorumBackend::builder((0..NODES).map(member)).max_lease(self.max_lease);
        let quorum = builder.clock(clock).random(Arc::new(random)).build();
        quorum.expect("three nodes and a longest lease of some seconds")
    }
}

/// Clocks differ by less than the distance that a vote allows; now and then, one is wrong altogether.
fn clocks(dice: &mut Stream, first: StoreClock) -> Vec<StoreClock> {
    let apart = pick(dice, &[1, 100_000, 450_000]);
    let mut ahead: Vec<_> =
        (0..NODES).map(|_| i64::try_from(dice.below(2 * apart)).unwrap_or(0) - apart.cast_signed()).collect();
    if dice.chance(0.1) {
        ahead[NODES - 1] = pick(dice, &[-3_600_000_000, 3_600_000_000]);
    }
    ahead.into_iter().map(|ahead| first.ahead_by(ahead)).collect()
}

/// Nobody breaks a lock by force. A node that is declared durable loses nothing. Clocks step only where nothing depends on them.
fn troubles(drawn: &[Trouble], durable: bool, timeless: bool) -> Vec<Trouble> {
    use Trouble::*;
    let mut troubles = drawn.to_vec();
    if !troubles.is_empty() {
        // A node that is away, or comes back without its data, is what a quorum is for.
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
