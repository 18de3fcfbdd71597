//! A node: the real rules, and its age.

use super::{LEASE, QuorumConfig, QuorumMessage, Sort, TICK};
use lock_core::{
    FencingToken, LockName, Retention,
    backend::{AcquireMode, LeaseId, LeaseNumber, NotifyWaiters, ProcessId, Released},
    model::Slot,
};
use lock_quorum::{
    Extension, Healed, Healing, Proposal, Vote,
    model::{extend, heal, propose},
};
use lock_testkit::planted::PlantedBug;
use std::{sync::LazyLock, time::Duration};
use uuid::Uuid;

/// Without time, only a step ends a lease.
const ENDLESS: Duration = Duration::from_secs(1 << 40);
/// The age of a node that never lost its data.
const OLD: Duration = Duration::from_secs(1 << 20);

static NAME: LazyLock<LockName> =
    LazyLock::new(|| LockName::new("x").unwrap_or_else(|error| panic!("a lock name: {error}")));

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) slot: Slot,
    /// The step of time at which it lost its data.
    lost_at: Option<u8>,
    /// `true` if it has not got the counter of a holder back.
    pub(super) has_forgotten: bool,
    /// The number of its grants.
    pub(super) grants: u64,
}

pub(super) fn id_of(client: usize, lease: u8) -> LeaseId {
    LeaseId::new(ProcessId::from_uuid(Uuid::from_u128(client as u128 + 1)), LeaseNumber::new(lease.into()))
}

/// The effect of a request.
pub(super) struct Executed {
    pub(super) answer: QuorumMessage,
    /// `true` if the lease was granted or set again.
    pub(super) granted: bool,
    /// `true` if waiters are notified.
    pub(super) notifies: bool,
}

impl Node {
    /// Loses all data.
    pub(super) fn crash(&mut self, ticks: u8) {
        *self = Self { slot: Slot::default(), lost_at: Some(ticks), has_forgotten: true, grants: 0 };
    }

    /// Lets a party outside of the search hold this node.
    pub(super) fn holds(&mut self, config: &QuorumConfig, node: usize) {
        let now = config.time_of(node, 0);
        let mode = AcquireMode::New { reserve: 0, floor: None };
        self.slot.acquire(now, id_of(usize::from(u8::MAX), 0), ENDLESS, now, mode, None);
    }

    /// Executes a request. `given` is the highest token granted to a client so far.
    pub(super) fn execute(
        &mut self,
        config: &QuorumConfig,
        ticks: u8,
        given: u64,
        request: &QuorumMessage,
    ) -> Executed {
        let now = config.time_of(request.node, ticks);
        let lease = id_of(request.client, request.lease);
        let (mut granted, mut notifies) = (false, false);
        let age = self.lost_at.map_or(OLD, |lost_at| TICK * u32::from(ticks - lost_at));
        let min_age = if config.has(PlantedBug::NoQuarantine) { Duration::ZERO } else { LEASE };
        let duration = if config.ticks.is_some() { LEASE } else { ENDLESS };
        let sort = match request.sort.clone() {
            Sort::Propose { number, token, last, not_after } => {
                let proposal = Proposal {
                    name: NAME.clone(),
                    lease,
                    duration,
                    not_after,
                    token,
                    last,
                    floor: config.floor_of(request.client),
                    min_age,
                    retention: Retention::Forever,
                };
                let vote = propose(&mut self.slot, now, age, &proposal, None);
                granted = vote == Vote::Granted;
                self.grants += u64::from(granted);
                self.has_forgotten &= !granted;
                Sort::Voted { number, vote, grants: self.grants, given }
            }
            Sort::Extend { number, not_after } => {
                let extension = Extension { name: NAME.clone(), lease, duration, not_after, depth: None };
                let outcome = extend(&mut self.slot, now, &extension);
                Sort::Extended { number, outcome, young: age < min_age }
            }
            Sort::Heal { last, not_after } => {
                let keeps_counter = config.has(PlantedBug::HealKeepsCounter);
                let healing = Healing {
                    name: NAME.clone(),
                    lease,
                    duration,
                    not_after,
                    depth: 1,
                    last: if keeps_counter { FencingToken::new(0) } else { last },
                    retention: Retention::Forever,
                };
                let healed = heal(&mut self.slot, now, &healing, None);
                granted = healed == Healed::Set;
                self.has_forgotten &= !granted;
                Sort::Healed(healed)
            }
            Sort::Release { release, notify } => {
                let released = self.slot.release(now, lease, 0);
                let found = matches!(released, Released::Released { .. });
                notifies = notify != NotifyWaiters::No && found;
                Sort::Released { release, executed: now, found }
            }
            answer => answer,
        };
        let answer = QuorumMessage { slow: false, sort, ..*request };
        Executed { answer, granted, notifies }
    }
}
