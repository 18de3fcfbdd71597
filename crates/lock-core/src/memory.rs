//! The in-memory backend: the store rules behind a mutex.

use crate::{
    backend::{
        Backend, BackendError, Capabilities, Directory, ForceReleaseRequest, ForceReleased, Inspected,
        NotifyWaiters, Operation, Outcome, Released, Reply, Store, StoredHold, StoredPool, Submission,
        SubscriberId, SubscriptionRegistry, Subscriptions, WakeListener,
    },
    clock::{Clock, SteadyClock},
    ids::ProcessId,
    inspect::{ListLimits, Listing, ProcessCard},
    name::LockName,
    store::{Pool, Ruling, Slot},
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
    contents: Mutex<rank::SlotMap, Contents>,
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
        let contents = Mutex::new(Contents::empty_since(clock.wall()));
        let (watchers, cards) = (SubscriptionRegistry::default(), Mutex::default());
        Self { inner: Arc::new(Inner { clock, contents, watchers, cards }) }
    }

    /// Applies a rule to the record of a name, with the time and the age of the data. For quorums, whose nodes have
    /// rules of their own.
    #[doc(hidden)]
    pub fn apply<R>(&self, name: &LockName, rule: impl FnOnce(&mut Slot, UtcTime, Duration) -> R) -> R {
        let (mut contents, now) = self.inner.contents();
        let age = now.since(contents.since);
        contents.locks.record_or_new(name, now, |slot| rule(slot, now, age))
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend")
            .field("names", &lock(&self.inner.contents).len())
            .finish_non_exhaustive()
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
        let (mut contents, now) = self.inner.contents();
        *contents = Contents::empty_since(now);
        drop(contents);
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
        let (mut contents, now) = self.inner.contents();
        if name.is_pool() {
            return contents.pools.record(name, |pool| !std::mem::take(&mut pool.holders).is_empty());
        }
        contents.locks.record(name, |slot| {
            let held = slot.inspect(now).map(|(lease, ..)| lease.to_string());
            held.is_some_and(|lease| slot.force_release(now, &lease) == ForceReleased::Released)
        })
    }

    /// Returns the number of stored names: held locks, and counters within their retention.
    #[must_use]
    pub fn names(&self) -> usize {
        lock(&self.inner.contents).len()
    }

    /// Returns the names that are held now, sorted.
    #[must_use]
    pub fn held(&self) -> Vec<LockName> {
        let (mut contents, now) = self.inner.contents();
        contents.locks.names(now, Slot::is_held)
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
        Capabilities::new("memory").with_permits()
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        Some(self.inner.clock.wall())
    }

    fn submit(&self, submission: Submission) {
        let reply = self.inner.execute(submission.operation());
        submission.complete(Ok(reply));
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        if name.is_pool() {
            let (mut contents, now) = self.inner.contents();
            let pool = contents.pools.record(&name, |pool| pool.inspect(now));
            return Ok(Reply::new(now, Inspected::Pool(pool)));
        }
        let (now, held) = {
            let (mut contents, now) = self.inner.contents();
            (now, contents.locks.record(&name, |slot| slot.inspect(now)))
        };
        let outcome = held.map_or(Inspected::Free, |(lease, depth, remaining)| {
            Inspected::Held(StoredHold { lease: lease.to_string(), depth, remaining: Some(remaining) })
        });
        Ok(Reply::new(now, outcome))
    }

    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        let (now, outcome, wakes) = {
            let (mut contents, now) = self.inner.contents();
            match r.name.is_pool() {
                true => {
                    let ruling = contents.pools.record(&r.name, |pool| pool.force_release(now, &r.seen));
                    (now, ruling.outcome, ruling.wakes)
                }
                false => {
                    let outcome = contents.locks.record(&r.name, |slot| slot.force_release(now, &r.seen));
                    (now, outcome, outcome == ForceReleased::Released)
                }
            }
        };
        if wakes {
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
        let (mut contents, now) = self.inner.contents();
        let mut names = contents.locks.names(now, Slot::is_held);
        names.retain(|name| !name.is_reserved());
        names.extend(contents.pools.names(now, |pool, now| pool.inspect(now) != StoredPool::default()));
        // Pools are listed only under the beginning of their names.
        names.retain(|name| name.as_str().starts_with(&prefix) && (!name.is_pool() || !prefix.is_empty()));
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
        if operation.name().is_pool() {
            return self.execute_on_pool(operation);
        }
        let (mut contents, now) = self.contents();
        let locks = &mut contents.locks;
        let outcome = match operation {
            Operation::Acquire(r) => {
                let retention = r.retention.unless(Some(RETENTION));
                let acquire = |slot: &mut Slot| {
                    slot.acquire(now, r.lease, r.duration, r.not_after, r.mode.clone(), retention)
                };
                locks.record_or_new(&r.name, now, acquire).into()
            }
            Operation::Renew(r) => {
                locks.record(&r.name, |slot| slot.renew(now, r.lease, r.duration, r.not_after)).into()
            }
            Operation::Release(r) => {
                let released = locks.record(&r.name, |slot| slot.release(now, r.lease, r.depth_left));
                drop(contents);
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

    fn execute_on_pool(&self, operation: &Operation) -> Reply<Outcome> {
        let (mut contents, now) = self.contents();
        let rule = |pool: &mut Pool| pool.execute(now, operation, Some(RETENTION));
        let Ruling { outcome, wakes } = match operation {
            Operation::Acquire(_) => contents.pools.record_or_new(operation.name(), now, rule),
            Operation::Renew(_) | Operation::Release(_) => contents.pools.record(operation.name(), rule),
        };
        drop(contents);
        if wakes {
            self.watchers.released(operation.name());
        }
        Reply::new(now, outcome)
    }

    /// Locks the contents, and returns them with the time.
    fn contents(&self) -> (MutexGuard<'_, rank::SlotMap, Contents>, UtcTime) {
        let contents = lock(&self.contents);
        (contents, self.clock.wall())
    }
}

/// The records of a store.
struct Contents {
    /// The time at which the store started or last lost its data.
    since: UtcTime,
    locks: Records<Slot>,
    pools: Records<Pool>,
}

impl Contents {
    fn empty_since(since: UtcTime) -> Self {
        Self { since, locks: Records::default(), pools: Records::default() }
    }

    fn len(&self) -> usize {
        self.locks.of.len() + self.pools.of.len()
    }
}

/// The record of a name.
trait Record: Default {
    /// Drops expired data, and returns `true` if nothing is left.
    fn is_over(&mut self, now: UtcTime) -> bool;
}

impl Record for Slot {
    fn is_over(&mut self, now: UtcTime) -> bool {
        self.expire(now);
        self.is_empty()
    }
}

impl Record for Pool {
    fn is_over(&mut self, now: UtcTime) -> bool {
        self.expire(now);
        self.is_empty()
    }
}

/// Records by name, swept so that one-off names do not accumulate.
struct Records<R> {
    of: HashMap<LockName, R>,
    sweep_at: usize,
}

impl<R> Default for Records<R> {
    fn default() -> Self {
        Self { of: HashMap::new(), sweep_at: 0 }
    }
}

impl<R: Record> Records<R> {
    /// Applies `f` to the record of `name`. An unknown name is not stored.
    fn record<T>(&mut self, name: &LockName, f: impl FnOnce(&mut R) -> T) -> T {
        match self.of.get_mut(name) {
            Some(record) => f(record),
            None => f(&mut R::default()),
        }
    }

    /// Applies `f` to the record of `name`, and stores it unless it is empty.
    fn record_or_new<T>(&mut self, name: &LockName, now: UtcTime, f: impl FnOnce(&mut R) -> T) -> T {
        if let Some(record) = self.of.get_mut(name) {
            return f(record);
        }
        if self.of.len() >= self.sweep_at.max(SWEEP_AT_LEAST) {
            self.of.retain(|_, record| !record.is_over(now));
            self.sweep_at = self.of.len() * 2;
        }
        let mut record = R::default();
        let made = f(&mut record);
        if !record.is_over(now) {
            self.of.insert(name.clone(), record);
        }
        made
    }

    /// Returns the names of the chosen records, sorted.
    fn names(&mut self, now: UtcTime, chosen: impl Fn(&mut R, UtcTime) -> bool) -> Vec<LockName> {
        let chosen =
            self.of.iter_mut().filter_map(|(name, record)| chosen(record, now).then(|| name.clone()));
        let mut names: Vec<_> = chosen.collect();
        names.sort();
        names
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
            let (mut contents, now) = store.inner.contents();
            contents.locks.record_or_new(&name, now, |slot| {
                let mode = AcquireMode::New { reserve: 0, floor: None };
                slot.acquire(now, lease, Duration::from_secs(30), now, mode, Some(RETENTION));
                slot.release(now, lease, 0);
            });
        }
        let names = lock(&store.inner.contents).len();
        assert!(names < 2_000, "{names} of {rounds} names are still kept");
    }
}
