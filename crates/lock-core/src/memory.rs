//! The in-memory backend: the store rules behind a mutex.

use crate::{
    backend::{
        Backend, BackendError, Capabilities, Directory, ForceReleaseRequest, ForceReleased, Inspected,
        NotifyWaiters, Operation, Outcome, Released, Reply, Store, StoredHold, Submission, SubscriberId,
        SubscriptionRegistry, Subscriptions, WakeListener,
    },
    clock::{Clock, SteadyClock},
    ids::ProcessId,
    inspect::{ListLimits, Listing, ProcessCard},
    name::LockName,
    store::Slot,
    sync::{Mutex, MutexGuard, lock, rank},
    time::UtcTime,
};
use async_trait::async_trait;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

/// The default retention of a counter. The store's own clock never steps back, so a counter older than a millisecond
/// could be dropped; a minute leaves room for clocks that tests set back.
const RETENTION: Duration = Duration::from_secs(60);

/// The minimum number of names for a sweep. Each sweep waits until the names have doubled since the last one, so its
/// amortized cost per acquire is constant.
const SWEEP_AT_LEAST: usize = 256;

/// A store in this process's memory: for tests, for single-process programs, and as the reference for other
/// backends.
///
/// It responds immediately, pushes wake-ups, and loses its contents when it is dropped. Clones refer to the
/// same store. Its tokens are microseconds of the wall clock, so they keep increasing across restarts of the
/// process.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{LockFactory, MemoryBackend};
///
/// let store = MemoryBackend::new();
/// let (a, b) = (LockFactory::new(store.clone()), LockFactory::new(store));
/// let guard = a.named("x")?.acquire().await?;
/// assert!(b.named("x")?.try_acquire().await?.is_none(), "factories exclude one another");
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryBackend {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    slots: Mutex<rank::SlotMap, SlotMap>,
    watchers: SubscriptionRegistry,
    /// Cards with the times at which they expire. Each write drops the expired ones.
    cards: Mutex<rank::CardMap, HashMap<ProcessId, (ProcessCard, UtcTime)>>,
}

impl MemoryBackend {
    /// Creates an empty store with a wall clock that never steps.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SteadyClock::new()))
    }

    /// Creates an empty store whose server time is this clock's [`wall`](Clock::wall).
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let slots = Mutex::new(SlotMap::empty_since(clock.wall()));
        let (watchers, cards) = (SubscriptionRegistry::default(), Mutex::default());
        Self { inner: Arc::new(Inner { clock, slots, watchers, cards }) }
    }

    /// Applies a rule to the record of a name, with the time and the age of the data. For quorums, whose nodes have
    /// rules of their own.
    #[doc(hidden)]
    pub fn apply<R>(&self, name: &LockName, rule: impl FnOnce(&mut Slot, UtcTime, Duration) -> R) -> R {
        let (mut slots, now) = self.inner.slots();
        let age = slots.age(now);
        slots.slot_or_new(name, now, |slot| rule(slot, now, age))
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").field("names", &lock(&self.inner.slots).len()).finish_non_exhaustive()
    }
}

impl From<MemoryBackend> for Store {
    fn from(memory: MemoryBackend) -> Self {
        let memory = Arc::new(memory);
        Self::new(memory.clone()).pushing(memory.clone()).with_directory(memory)
    }
}

/// For tests (feature `test-util`).
#[cfg(feature = "test-util")]
impl MemoryBackend {
    /// Drops every lock and every counter, like a server that restarts empty, and reports a restart to its factories.
    pub fn clear(&self) {
        let (mut slots, now) = self.inner.slots();
        *slots = SlotMap::empty_since(now);
        drop(slots);
        self.inner.watchers.server_restarted();
    }

    /// Drops the hold of this lock, like a server that loses its data. Returns `false` if the lock was not held.
    ///
    /// The holder notices at its next renewal: its hold ends with [`LostReason::Gone`](crate::LostReason::Gone). The
    /// fencing counter is kept, and no waiter is woken. With a [prefix](crate::LockFactoryBuilder::prefix), the name is
    /// the stored one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockFactory, LostReason};
    ///
    /// let (locks, store, _) = LockFactory::paused();
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// assert!(store.lose(guard.name()));
    /// assert_eq!(guard.lost().await, LostReason::Gone);
    /// # Ok(()) }
    /// ```
    pub fn lose(&self, name: &LockName) -> bool {
        let (mut slots, now) = self.inner.slots();
        slots.slot(name, |slot| {
            let held = slot.inspect(now).map(|(lease, ..)| lease.to_string());
            held.is_some_and(|lease| slot.force_release(now, &lease) == ForceReleased::Released)
        })
    }

    /// Returns the number of stored names: held locks, and counters within their retention.
    #[must_use]
    pub fn names(&self) -> usize {
        lock(&self.inner.slots).len()
    }

    /// Returns the names that are held now, sorted.
    #[must_use]
    pub fn held(&self) -> Vec<LockName> {
        let (mut slots, now) = self.inner.slots();
        slots.held(now)
    }

    /// Returns the number of watched (factory, name) pairs.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.inner.watchers.len()
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("memory")
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        Some(self.inner.clock.wall())
    }

    fn submit(&self, submission: Submission) {
        let reply = self.inner.execute(submission.operation());
        submission.complete(Ok(reply));
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let (now, held) = {
            let (mut slots, now) = self.inner.slots();
            (now, slots.slot(&name, |slot| slot.inspect(now)))
        };
        let outcome = held.map_or(Inspected::Free, |(lease, depth, remaining)| {
            Inspected::Held(StoredHold { lease: lease.to_string(), depth, remaining: Some(remaining) })
        });
        Ok(Reply::new(now, outcome))
    }

    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        let (now, outcome) = {
            let (mut slots, now) = self.inner.slots();
            (now, slots.slot(&r.name, |slot| slot.force_release(now, &r.seen)))
        };
        if outcome == ForceReleased::Released {
            self.inner.watchers.released(&r.name);
        }
        Ok(Reply::new(now, outcome))
    }
}

#[async_trait]
impl Subscriptions for MemoryBackend {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.inner.watchers.forget_gone();
        self.inner.watchers.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.watchers.subscribe(subscriber, name);
        Ok(())
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.watchers.unsubscribe(subscriber, &name);
        Ok(())
    }
}

#[async_trait]
impl Directory for MemoryBackend {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        let now = self.inner.clock.wall();
        let mut cards = lock(&self.inner.cards);
        cards.retain(|_, (_, end)| now < *end);
        cards.insert(process, (card, now + ttl));
        Ok(())
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        lock(&self.inner.cards).remove(&process);
        Ok(())
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        let now = self.inner.clock.wall();
        let cards = lock(&self.inner.cards);
        Ok(cards.get(&process).filter(|(_, end)| now < *end).map(|(card, _)| card.clone()))
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        let (mut slots, now) = self.inner.slots();
        let mut names = slots.held(now);
        names.retain(|name| !name.is_reserved() && name.as_str().starts_with(&prefix));
        let truncated = names.len() > limits.names();
        names.truncate(limits.names());
        Ok(Listing::new(names, truncated))
    }
}

/// The named stores of this process: `memory:shop` is one store for all its users.
static NAMED: OnceLock<Mutex<rank::NamedStores, HashMap<String, Weak<Inner>>>> = OnceLock::new();

/// Returns the store with this name, and creates it if it is not in use. The empty name creates a new store each time.
pub(crate) fn connect(name: &str) -> MemoryBackend {
    if name.is_empty() {
        return MemoryBackend::new();
    }
    let mut named = lock(NAMED.get_or_init(Mutex::default));
    if let Some(inner) = named.get(name).and_then(Weak::upgrade) {
        return MemoryBackend { inner };
    }
    named.retain(|_, inner| inner.strong_count() > 0);
    let made = MemoryBackend::new();
    named.insert(name.to_owned(), Arc::downgrade(&made.inner));
    made
}

impl Inner {
    fn execute(&self, operation: &Operation) -> Reply<Outcome> {
        let (mut slots, now) = self.slots();
        let outcome = match operation {
            Operation::Acquire(r) => {
                let retention = r.retention.unless(Some(RETENTION));
                let acquire =
                    |slot: &mut Slot| slot.acquire(now, r.lease, r.duration, r.not_after, r.mode, retention);
                slots.slot_or_new(&r.name, now, acquire).into()
            }
            Operation::Renew(r) => {
                slots.slot(&r.name, |slot| slot.renew(now, r.lease, r.duration, r.not_after)).into()
            }
            Operation::Release(r) => {
                let released = slots.slot(&r.name, |slot| slot.release(now, r.lease, r.depth_left));
                drop(slots);
                match released {
                    Released::Released { .. } if r.notify != NotifyWaiters::No => {
                        Released::Released { listeners: Some(self.watchers.released(&r.name)) }
                    }
                    other => other,
                }
                .into()
            }
        };
        Reply::new(now, outcome)
    }

    /// Locks the contents, and returns them with the time.
    fn slots(&self) -> (MutexGuard<'_, rank::SlotMap, SlotMap>, UtcTime) {
        let slots = lock(&self.slots);
        (slots, self.clock.wall())
    }
}

/// The names of a store, swept so that one-off names do not accumulate.
struct SlotMap {
    /// The time at which the store started or last lost its data.
    since: UtcTime,
    slots: HashMap<LockName, Slot>,
    sweep_at: usize,
}

impl SlotMap {
    /// Creates an empty map.
    fn empty_since(since: UtcTime) -> Self {
        Self { since, slots: HashMap::new(), sweep_at: 0 }
    }

    /// Returns the time since the store started or last lost its data.
    fn age(&self, now: UtcTime) -> Duration {
        now.since(self.since)
    }

    /// Applies `f` to the slot of `name`. An unknown name is not stored.
    fn slot<R>(&mut self, name: &LockName, f: impl FnOnce(&mut Slot) -> R) -> R {
        match self.slots.get_mut(name) {
            Some(slot) => f(slot),
            None => f(&mut Slot::default()),
        }
    }

    /// Applies `f` to the slot of `name`, and stores the slot unless it is empty.
    fn slot_or_new<R>(&mut self, name: &LockName, now: UtcTime, f: impl FnOnce(&mut Slot) -> R) -> R {
        if let Some(slot) = self.slots.get_mut(name) {
            return f(slot);
        }
        if self.slots.len() >= self.sweep_at.max(SWEEP_AT_LEAST) {
            self.sweep(now);
        }
        let mut slot = Slot::default();
        let made = f(&mut slot);
        if !slot.is_empty() {
            self.slots.insert(name.clone(), slot);
        }
        made
    }

    fn sweep(&mut self, now: UtcTime) {
        self.slots.retain(|_, slot| {
            slot.expire(now);
            !slot.is_empty()
        });
        self.sweep_at = self.slots.len() * 2;
    }

    /// Returns the held names, sorted.
    fn held(&mut self, now: UtcTime) -> Vec<LockName> {
        let held = self.slots.iter_mut().filter_map(|(name, slot)| slot.inspect(now).map(|_| name.clone()));
        let mut names: Vec<_> = held.collect();
        names.sort();
        names
    }

    fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::AcquireMode,
        clock::test::StillClock,
        ids::{LeaseId, LeaseNumber},
    };

    #[test]
    fn one_off_names_do_not_fill_the_memory() {
        let clock = Arc::new(StillClock::default());
        let store = MemoryBackend::with_clock(clock.clone());
        let process = ProcessId::from_uuid(uuid::Uuid::nil());
        let rounds = 20_000u64;
        for number in 0..rounds {
            clock.advance(Duration::from_secs(1));
            let lease = LeaseId::new(process, LeaseNumber::new(number));
            let name = LockName::new(format!("order:{number}")).unwrap();
            let (mut slots, now) = store.inner.slots();
            slots.slot_or_new(&name, now, |slot| {
                let mode = AcquireMode::New { reserve: 0, floor: None };
                slot.acquire(now, lease, Duration::from_secs(30), now, mode, Some(RETENTION));
                slot.release(now, lease, 0);
            });
        }
        let names = lock(&store.inner.slots).len();
        assert!(names < 2_000, "{names} of {rounds} names are still kept");
    }
}
