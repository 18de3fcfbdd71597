//! One lock name that this process holds or waits for, and the table of all of them.

use super::hold_state::HoldState;
use crate::{
    backend::BackendError,
    fifo_map::FifoMap,
    machine::{
        Command, Env, Event, HoldId, Machine, MachineConfig, OwnerId, PoolMachine, Refusal, ReleaseAnswer,
        Ticket, WaiterId,
    },
    name::LockName,
    sync::{Hashing, Mutex, lock, rank},
    time::Moment,
};
use std::{collections::HashMap, hash::BuildHasher, sync::Arc, task::Waker};

#[derive(Debug)]
pub(crate) struct LockEntry {
    pub(crate) id: u64,
    pub(crate) name: LockName,
    /// The name in the store: with the factory's prefix.
    pub(super) stored: LockName,
    pub(super) state: Mutex<rank::Entry, EntryState>,
    /// Events that are added without locking the state: by `Drop`, which must not allocate, and by a backend, which
    /// must not wait for the keeper.
    deferred: Mutex<rank::DeferredEvents, DeferredEvents>,
}

#[derive(Debug)]
pub(super) struct EntryState {
    pub(super) machine: NameMachine,
    pub(super) waiters: FifoMap<WaiterId, WaiterSlot>,
    pub(super) releases: FifoMap<Ticket, ReleaseSlot>,
    /// The hold of this process, if this is a lock.
    hold: Option<Arc<HoldState>>,
    /// The errors of the latest acquire and renewal; `None` if they succeeded.
    pub(super) errors: Errors,
    pub(super) scheduled: Times,
    /// `true` while the entry is counted as busy.
    pub(super) busy: bool,
    /// `true` once removed from the table. A caller that still has this entry looks the name up again.
    pub(super) removed: bool,
    last_id: u64,
}

/// The state machine of a name.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are locks")]
pub(super) enum NameMachine {
    Lock(Machine),
    Pool(PoolMachine, PoolHolds),
}

/// The holds of this process, if this is a pool. Here, they use the room that the machine of a lock needs.
type PoolHolds = FifoMap<HoldId, Arc<HoldState>>;

impl NameMachine {
    fn of(name: &LockName, config: MachineConfig) -> Self {
        match name.is_pool() {
            true => Self::Pool(PoolMachine::new(config), PoolHolds::default()),
            false => Self::Lock(Machine::new(config)),
        }
    }

    pub(super) fn handle(&mut self, now: Moment, event: Event, env: &mut dyn Env, out: &mut Vec<Command>) {
        match self {
            Self::Lock(machine) => machine.handle(now, event, env, out),
            Self::Pool(machine, _) => machine.handle(now, event, env, out),
        }
    }

    pub(super) fn times(&self) -> Times {
        let (wake, renewable_from) = match self {
            Self::Lock(machine) => (machine.wake_at(), machine.renewable_from()),
            Self::Pool(machine, _) => (machine.wake_at(), machine.renewable_from()),
        };
        Times { wake, renewable_from }
    }

    pub(super) fn is_drained(&self) -> bool {
        match self {
            Self::Lock(machine) => machine.is_drained(),
            Self::Pool(machine, _) => machine.is_drained(),
        }
    }

    fn is_removable(&self) -> bool {
        match self {
            Self::Lock(machine) => machine.is_removable(),
            Self::Pool(machine, _) => machine.is_removable(),
        }
    }

    pub(super) fn is_suspect(&self) -> bool {
        match self {
            Self::Lock(machine) => machine.is_suspect(),
            Self::Pool(machine, _) => machine.is_suspect(),
        }
    }

    pub(super) fn waiters(&self) -> usize {
        match self {
            Self::Lock(machine) => machine.waiters(),
            Self::Pool(machine, _) => machine.waiters(),
        }
    }

    /// Returns the holders in this process: owner, hold, number of guards, deadline.
    pub(super) fn holders(&self) -> Vec<(OwnerId, HoldId, u32, Moment)> {
        match self {
            Self::Lock(machine) => machine.holder().into_iter().collect(),
            Self::Pool(machine, _) => machine.holders().collect(),
        }
    }
}

/// An entry's times in the agenda.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Times {
    pub(super) wake: Option<Moment>,
    pub(super) renewable_from: Option<Moment>,
}

/// Errors by operation. At most one acquire and one renewal of a name are in progress, so no caller sees the error
/// from another operation.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub(super) acquire: Option<Arc<BackendError>>,
    pub(super) renewal: Option<Arc<BackendError>>,
}

#[derive(Debug, Default)]
pub(super) struct DeferredEvents {
    pub(super) dropped: Vec<HoldId>,
    guards: usize,
    pub(super) woken: bool,
    pub(super) missed_wakes: bool,
    pub(super) suspicion: bool,
    /// For each [`QueueKind`], `true` if the entry is in the agenda's work.
    queued: [bool; 2],
}

/// The parts of the agenda's work that hold entries with deferred events.
#[derive(Debug, Clone, Copy)]
pub(super) enum QueueKind {
    Dropped,
    Woken,
}

pub(super) enum DeferredEvent {
    Dropped(HoldId),
    Woken,
    MissedWakes,
    Suspicion,
}

impl LockEntry {
    pub(super) fn new(id: u64, name: LockName, stored: LockName, config: MachineConfig) -> Self {
        let state = EntryState {
            machine: NameMachine::of(&name, config),
            waiters: FifoMap::default(),
            releases: FifoMap::default(),
            hold: None,
            errors: Errors::default(),
            scheduled: Times::default(),
            busy: false,
            removed: false,
            last_id: 0,
        };
        Self { id, name, stored, state: Mutex::new(state), deferred: Mutex::default() }
    }

    /// Reserves space for the drop of one more guard.
    pub(super) fn guard_made(&self) {
        let mut deferred = lock(&self.deferred);
        deferred.guards += 1;
        let room = deferred.guards - deferred.dropped.len();
        deferred.dropped.reserve(room);
    }

    pub(super) fn guard_released(&self) {
        let mut deferred = lock(&self.deferred);
        deferred.guards = deferred.guards.saturating_sub(1);
    }

    /// Defers an event. Returns `true` if the caller has to put the entry into that part of the agenda's work.
    pub(super) fn defer(&self, kind: QueueKind, event: impl FnOnce(&mut DeferredEvents)) -> bool {
        let mut deferred = lock(&self.deferred);
        event(&mut deferred);
        !std::mem::replace(&mut deferred.queued[kind as usize], true)
    }

    /// Takes the next deferred event.
    pub(super) fn next_deferred(&self) -> Option<DeferredEvent> {
        let mut deferred = lock(&self.deferred);
        if let Some(hold) = deferred.dropped.pop() {
            deferred.guards = deferred.guards.saturating_sub(1);
            return Some(DeferredEvent::Dropped(hold));
        }
        if std::mem::take(&mut deferred.suspicion) {
            return Some(DeferredEvent::Suspicion);
        }
        if std::mem::take(&mut deferred.missed_wakes) {
            return Some(DeferredEvent::MissedWakes);
        }
        std::mem::take(&mut deferred.woken).then_some(DeferredEvent::Woken)
    }

    pub(super) fn taken_from_queue(&self, kind: QueueKind) {
        lock(&self.deferred).queued[kind as usize] = false;
    }

    fn has_dropped_guards(&self) -> bool {
        !lock(&self.deferred).dropped.is_empty()
    }

    /// Takes the wakers of all waiting tasks, and returns the holds, which have wakers of their own.
    pub(super) fn take_wakers(&self) -> (Vec<Waker>, Vec<Arc<HoldState>>) {
        let mut state = lock(&self.state);
        let holds = state.holds().cloned().collect();
        let EntryState { waiters, releases, .. } = &mut *state;
        let waiting = waiters.values_mut().filter_map(WaiterSlot::take_waker);
        let releasing = releases.values_mut().filter_map(ReleaseSlot::take_waker);
        (waiting.chain(releasing).collect(), holds)
    }
}

impl EntryState {
    /// Returns a number that is unique in this entry and greater than the previous ones.
    pub(super) fn fresh_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns the holds of this process: at most one of a lock.
    fn holds(&self) -> impl Iterator<Item = &Arc<HoldState>> {
        let pooled = match &self.machine {
            NameMachine::Lock(_) => None,
            NameMachine::Pool(_, holds) => Some(holds.iter().map(|(_, hold)| hold)),
        };
        self.hold.iter().chain(pooled.into_iter().flatten())
    }

    pub(super) fn hold(&self, id: HoldId) -> Option<&Arc<HoldState>> {
        match &self.machine {
            NameMachine::Lock(_) => self.hold.as_ref().filter(|hold| hold.id() == id),
            NameMachine::Pool(_, holds) => holds.get(&id),
        }
    }

    pub(super) fn add_hold(&mut self, id: HoldId, hold: Arc<HoldState>) {
        match &mut self.machine {
            NameMachine::Lock(_) => self.hold = Some(hold),
            NameMachine::Pool(_, holds) => drop(holds.insert(id, hold)),
        }
    }

    pub(super) fn take_hold(&mut self, id: HoldId) -> Option<Arc<HoldState>> {
        match &mut self.machine {
            NameMachine::Lock(_) => self.hold.take_if(|hold| hold.id() == id),
            NameMachine::Pool(_, holds) => holds.remove(&id),
        }
    }

    /// Returns `true` if the entry can be removed without loss.
    pub(super) fn is_removable(&self, entry: &LockEntry) -> bool {
        self.machine.is_removable()
            && self.waiters.is_empty()
            && self.releases.is_empty()
            && !entry.has_dropped_guards()
    }
}

/// The slot of a waiting acquire.
#[derive(Debug)]
pub(super) enum WaiterSlot {
    Waiting(Option<Waker>),
    /// The result and its time.
    Ready(AcquireResult, Moment),
}

/// The result of a wait.
#[derive(Debug)]
pub(crate) enum AcquireResult {
    Granted(Arc<HoldState>),
    Refused(Refusal, Option<Arc<BackendError>>),
}

impl WaiterSlot {
    /// Stores the result. The caller releases its mutex before it wakes the returned waker.
    pub(super) fn set(&mut self, result: AcquireResult, now: Moment) -> Option<Waker> {
        match std::mem::replace(self, Self::Ready(result, now)) {
            Self::Waiting(waker) => waker,
            Self::Ready(..) => None,
        }
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        match self {
            Self::Waiting(waker) => waker.take(),
            Self::Ready(..) => None,
        }
    }
}

/// The slot of a waiting release.
#[derive(Debug)]
pub(super) enum ReleaseSlot {
    Waiting(Option<Waker>),
    Answered(ReleaseAnswer),
}

impl ReleaseSlot {
    /// Stores the reply. The caller releases its mutex before it wakes the returned waker.
    pub(super) fn set(&mut self, answer: ReleaseAnswer) -> Option<Waker> {
        match std::mem::replace(self, Self::Answered(answer)) {
            Self::Waiting(waker) => waker,
            Self::Answered(_) => None,
        }
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        match self {
            Self::Waiting(waker) => waker.take(),
            Self::Answered(_) => None,
        }
    }
}

const SHARDS: usize = 16;

type Shard = Mutex<rank::Shard, HashMap<LockName, Arc<LockEntry>>>;

/// The entries of a factory, by name.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    shards: [Shard; SHARDS],
    hasher: Hashing,
}

impl LockTable {
    fn shard(&self, name: &LockName) -> &Shard {
        let hash = self.hasher.hash_one(name);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }

    pub(super) fn get(&self, name: &LockName) -> Option<Arc<LockEntry>> {
        lock(self.shard(name)).get(name).cloned()
    }

    pub(super) fn get_or_insert_with(
        &self,
        name: &LockName,
        make: impl FnOnce() -> LockEntry,
    ) -> Arc<LockEntry> {
        let mut shard = lock(self.shard(name));
        if let Some(entry) = shard.get(name) {
            return entry.clone();
        }
        let entry = Arc::new(make());
        shard.insert(name.clone(), entry.clone());
        entry
    }

    /// Removes the entry if nothing would be lost with it.
    pub(super) fn remove_if_idle(&self, entry: &Arc<LockEntry>) {
        // The entry is nearly always in use, so the shard need not be searched.
        if !lock(&entry.state).is_removable(entry) {
            return;
        }
        let mut shard = lock(self.shard(&entry.name));
        let mut state = lock(&entry.state);
        if state.is_removable(entry) && !state.removed {
            state.removed = true;
            shard.remove(&entry.name);
        }
    }

    /// Returns the entries in creation order, because the order of a hash map would make simulation runs differ.
    pub(super) fn all(&self) -> Vec<Arc<LockEntry>> {
        let of = |shard: &Shard| lock(shard).values().cloned().collect::<Vec<_>>();
        let mut entries: Vec<_> = self.shards.iter().flat_map(of).collect();
        entries.sort_unstable_by_key(|entry| entry.id);
        entries
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }
}
