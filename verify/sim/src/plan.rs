//! The plan that a seed determines before a run: the participants, their options, and the faults with their
//! frequencies.

use crate::clock::StoreClock;
use lock_core::{LockName, LockOptions};
use lock_testkit::{Seed, Stream};
use std::time::Duration;

/// The maximum delay of a late message, in ms: longer than any operation timeout.
pub(crate) const LATEST: u64 = 5_000;
/// The number of nodes of a quorum.
pub(crate) const NODES: usize = 3;

/// The store that the processes of a run lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topology {
    /// One store.
    Single,
    /// A quorum of three stores.
    Quorum,
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) processes: usize,
    pub(crate) clients: usize,
    pub(crate) names: Vec<LockName>,
    pub(crate) menu: Vec<Terms>,
    pub(crate) push: bool,
    pub(crate) retention: Option<Duration>,
    pub(crate) events: u64,
    pub(crate) waiters_per_name: usize,
    pub(crate) latency: Latency,
    pub(crate) faults: Faults,
    pub(crate) troubles: Vec<Trouble>,
    /// The mean time between troubles, in ms.
    pub(crate) trouble_every: u64,
    pub(crate) process_ppm: Vec<i64>,
    /// The clock of each store.
    pub(crate) clocks: Vec<StoreClock>,
    pub(crate) wall_ahead: Vec<i64>,
    /// The idle time of clients between operations and the length of their holds, in ms.
    pub(crate) idle: u64,
    pub(crate) hold: u64,
    /// If set, acquires, renewals and releases are submitted to a pipeline.
    pub(crate) batching: Option<Batching>,
    /// If set, the stores are the nodes of a quorum.
    pub(crate) quorum: Option<Quorum>,
}

/// The rules by which a pipeline sends. While nothing is under way, it sends immediately.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batching {
    /// The number of waiting operations that are sent even while calls are under way.
    pub(crate) gathered: usize,
    /// The maximum number of operations in a call.
    pub(crate) most: usize,
    /// The maximum number of calls under way.
    pub(crate) calls: usize,
}

impl Batching {
    fn draw(dice: &mut Stream) -> Self {
        Self { gathered: pick(dice, &[2, 3, 16]), most: pick(dice, &[2, 32]), calls: pick(dice, &[1, 2, 8]) }
    }
}

/// A quorum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quorum {
    pub(crate) max_lease: Duration,
    /// `true` if its nodes lose nothing and are declared durable.
    pub(crate) durable: bool,
    /// `true` if its clocks step. The order of tokens still holds, but nothing else is guaranteed.
    pub(crate) timeless: bool,
}

/// The options of a lock, and the values that the oracle needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) options: LockOptions,
    pub(crate) lease: Duration,
    pub(crate) margin: Duration,
    pub(crate) operation: Duration,
    pub(crate) every: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    /// The time for which the name stays taken although the hold was released.
    pub(crate) min_hold: Duration,
}

/// The latency of a message in one direction, in ms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Latency {
    Zero,
    UpTo(u64),
    /// Usually short, sometimes up to this.
    Tail(u64),
}

/// Faults of single messages, each with its probability.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) in_place: f64,
    pub(crate) lose_request: f64,
    pub(crate) lose_reply: f64,
    pub(crate) refuse: f64,
    pub(crate) twice: f64,
    pub(crate) late: f64,
    pub(crate) lose_signal: f64,
    pub(crate) late_signal: f64,
}

/// Faults of whole processes and stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    Partition,
    Pause,
    StorePause,
    RestartKept,
    RestartEmpty,
    RestartOld,
    Force,
    /// A step within the margin.
    SmallStep,
    /// A step that exceeds the margin.
    StepAhead,
    StepBack,
    WallStep,
    Crash,
    Shutdown,
    Spurious,
    /// A process is copied, and both continue.
    Copy,
}

impl Latency {
    pub(crate) fn draw(self, dice: &mut Stream) -> u64 {
        match self {
            Self::Zero => 0,
            Self::UpTo(most) => dice.below(most + 1),
            Self::Tail(most) if dice.chance(0.05) => dice.below(most + 1),
            Self::Tail(_) => dice.below(3),
        }
    }
}

fn pick<T: Copy>(dice: &mut Stream, from: &[T]) -> T {
    from[usize::try_from(dice.below(from.len() as u64)).unwrap_or(0)]
}

fn terms(dice: &mut Stream) -> Terms {
    let lease = Duration::from_millis(pick(dice, &[300, 1_000, 2_000, 3_000, 10_000]));
    let (fixed, quick, wide) = (dice.chance(0.25), dice.chance(0.2), dice.chance(0.2));
    let margin = if wide { lease / 20 } else { lease / 100 + Duration::from_millis(2) };
    let operation = if quick { lease / 20 } else { lease / 10 };
    let every = if dice.chance(0.2) { lease / 4 } else { lease / 3 };
    let max_hold = dice.chance(0.1).then_some(lease * 2);
    // Here a hold lasts for a part of a lease, so that chains of hand-offs meet every kind of fault.
    let mut options =
        LockOptions::new().lease(lease).operation_timeout(operation).margin(margin).hand_off(4, lease / 2);
    options = if fixed { options.fixed_lease(lease) } else { options.renew_every(every) };
    if let Some(most) = max_hold {
        options = options.max_hold(most);
    }
    if dice.chance(0.3) {
        options = options.outage_budget(lease / 2);
    }
    Terms {
        options,
        lease,
        margin,
        operation,
        every: (!fixed).then_some(every),
        max_hold,
        min_hold: Duration::ZERO,
    }
}

impl Terms {
    /// Keeps the name taken for at least half of the lease.
    fn with_minimum(self) -> Self {
        let min_hold = self.lease / 2;
        Self { options: self.options.min_hold(min_hold), min_hold, ..self }
    }
}

impl Plan {
    pub(crate) fn of(topology: Topology, seed: Seed) -> Self {
        match topology {
            Topology::Single => Self::single(seed),
            Topology::Quorum => Self::quorum(seed),
        }
    }

    pub(crate) fn single(seed: Seed) -> Self {
        let dice = &mut seed.stream();
        let processes = 2 + usize::try_from(dice.below(4)).unwrap_or(0);
        let batching = dice.chance(0.5).then(|| Batching::draw(dice));
        // A pipeline is only busy if clients want many locks.
        let more = if batching.is_some() { 4 } else { 0 };
        let names = 1 + dice.below(3) + more;
        let names = (0..names).filter_map(|n| LockName::new(format!("name-{n}")).ok()).collect();
        let mut menu: Vec<_> = (0..3).map(|_| terms(dice)).collect();
        // Drawn from a separate stream, so that the rest of a run is the same with and without it.
        if Seed::new(seed.get().rotate_left(11) ^ 0x0004_1157).stream().chance(0.3) {
            menu[2] = menu[2].with_minimum();
        }
        let copies = Seed::new(seed.get().rotate_left(29) ^ 0xC0_B1E5).stream().chance(0.25);
        let ppm = |dice: &mut Stream| i64::try_from(dice.below(4_000)).unwrap_or(0) - 2_000;
        let wall = |dice: &mut Stream| {
            let most = pick(dice, &[1, 5_000, 2_000_000, 3_600_000_000]);
            i64::try_from(dice.below(2 * most)).unwrap_or(0) - i64::try_from(most).unwrap_or(0)
        };
        // One run in six is calm: nothing may be lost, and no operation may fail.
        let storm = if dice.chance(1.0 / 6.0) { 0.0 } else { pick(dice, &[0.01, 0.03, 0.1]) };
        Self {
            processes,
            clients: 1 + usize::try_from(dice.below(3) + more).unwrap_or(0),
            names,
            menu,
            push: dice.chance(0.85),
            retention: pick(dice, &[None, None, Some(Duration::from_secs(60))]),
            events: 2_000 + dice.below(500),
            waiters_per_name: pick(dice, &[2, 100, 100, 100]),
            latency: pick(
                dice,
                &[Latency::Zero, Latency::UpTo(2), Latency::UpTo(10), Latency::Tail(60), Latency::Tail(400)],
            ),
            faults: faults(dice, storm),
            troubles: troubles(dice, storm, copies),
            trouble_every: pick(dice, &[500, 2_000, 8_000]),
            process_ppm: (0..processes).map(|_| ppm(dice)).collect(),
            clocks: vec![StoreClock::new(ppm(dice), 0)],
            wall_ahead: (0..processes).map(|_| wall(dice)).collect(),
            idle: pick(dice, &[5, 50, 500]),
            hold: pick(dice, &[10, 300, 2_000]),
            batching,
            quorum: None,
        }
    }

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
        plan.clocks = quorum_clocks(dice, plan.clocks[0].clone());
        plan.troubles = quorum_troubles(&plan.troubles, durable, timeless);
        if timeless {
            plan.retention = None;
        }
        plan
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.troubles.is_empty()
    }

    /// Returns `true` if an answer may take longer than an operation timeout without any fault.
    pub(crate) fn may_be_slow(&self) -> bool {
        let shortest = self.menu.iter().map(|terms| terms.operation).min().unwrap_or_default();
        // An operation of a pipeline first waits for others.
        let wait = if self.batching.is_some() { 15 } else { 5 };
        match self.latency {
            Latency::Zero => false,
            Latency::UpTo(most) | Latency::Tail(most) => Duration::from_millis(2 * most + wait) > shortest,
        }
    }

    pub(crate) fn max_lease(&self) -> Duration {
        self.menu.iter().map(|terms| terms.lease).max().unwrap_or_default()
    }

    pub(crate) fn longest_minimum(&self) -> Duration {
        self.menu.iter().map(|terms| terms.min_hold).max().unwrap_or_default()
    }

    pub(crate) fn longest_operation(&self) -> Duration {
        self.menu.iter().map(|terms| terms.operation).max().unwrap_or_default()
    }
}

fn faults(dice: &mut Stream, storm: f64) -> Faults {
    let mut some = |most: f64| if dice.chance(0.6) { most } else { 0.0 };
    let in_place = some(0.3);
    if storm == 0.0 {
        return Faults { in_place, ..Faults::default() };
    }
    Faults {
        in_place,
        lose_request: some(storm),
        lose_reply: some(storm),
        refuse: some(storm),
        twice: some(storm * 2.0),
        late: some(storm),
        lose_signal: some(storm * 3.0),
        late_signal: some(storm * 3.0),
    }
}

/// Draws a few faults per seed, so that each also occurs without the others.
fn troubles(dice: &mut Stream, storm: f64, copies: bool) -> Vec<Trouble> {
    use Trouble::*;
    if storm == 0.0 {
        return Vec::new();
    }
    let mut some = Vec::new();
    let mild =
        [Partition, Pause, StorePause, RestartKept, SmallStep, WallStep, Crash, Shutdown, Spurious, StepBack];
    some.extend(mild.into_iter().filter(|_| dice.chance(0.4)));
    let data_loss = [RestartEmpty, RestartOld, Force];
    some.extend(data_loss.into_iter().filter(|_| dice.chance(0.15)));
    some.extend([StepAhead].into_iter().filter(|_| dice.chance(0.08)));
    if some.is_empty() {
        some.push(Partition);
    }
    some.extend(copies.then_some(Copy));
    some
}

/// Draws clocks that differ by less than a vote allows. Occasionally one is completely wrong.
fn quorum_clocks(dice: &mut Stream, first: StoreClock) -> Vec<StoreClock> {
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
fn quorum_troubles(drawn: &[Trouble], durable: bool, timeless: bool) -> Vec<Trouble> {
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
