//! The in-memory backend: the store rules behind a mutex.

mod card_map;
mod directory;
mod node;
mod registry;
mod slot_map;
#[cfg(feature = "test-util")]
mod test_util;

use crate::{
    backend::{
        Backend, BackendError, Capabilities, ForceReleaseRequest, ForceReleased, Inspected, NotifyWaiters,
        Operation, Outcome, Released, Reply, Store, StoredHold, Submission, SubscriberId,
        SubscriptionRegistry, Subscriptions, WakeListener,
    },
    clock::{Clock, SteadyClock},
    name::LockName,
    store::Slot,
    sync::{Mutex, lock, rank},
    time::UtcTime,
};
use async_trait::async_trait;
use card_map::CardMap;
pub(crate) use registry::connect;
use slot_map::SlotMap;
use std::{
    fmt,
    sync::{Arc, Weak},
};

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
    cards: Mutex<rank::CardMap, CardMap>,
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

impl Inner {
    fn now(&self) -> UtcTime {
        self.clock.wall()
    }

    fn execute(&self, operation: &Operation) -> Reply<Outcome> {
        let mut slots = lock(&self.slots);
        let now = self.now();
        let outcome = match operation {
            Operation::Acquire(r) => {
                let retention = r.retention.unless(Some(slot_map::RETENTION));
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
}

#[async_trait]
impl Backend for MemoryBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("memory")
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        Some(self.inner.now())
    }

    fn submit(&self, submission: Submission) {
        let reply = self.inner.execute(submission.operation());
        submission.complete(Ok(reply));
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let (now, held) = {
            let mut slots = lock(&self.inner.slots);
            let now = self.inner.now();
            (now, slots.slot(&name, |slot| slot.inspect(now)))
        };
        let outcome = held.map_or(Inspected::Free, |(lease, depth, remaining)| {
            Inspected::Held(StoredHold { lease: lease.to_string(), depth, remaining: Some(remaining) })
        });
        Ok(Reply::new(now, outcome))
    }

    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        let (now, outcome) = {
            let mut slots = lock(&self.inner.slots);
            let now = self.inner.now();
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

impl From<MemoryBackend> for Store {
    fn from(memory: MemoryBackend) -> Self {
        let memory = Arc::new(memory);
        Self::new(memory.clone()).pushing(memory.clone()).with_directory(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_off_names_do_not_fill_the_memory() {
        let clock = Arc::new(crate::clock::test::StillClock::default());
        let store = MemoryBackend::with_clock(clock.clone());
        let rounds = 20_000u64;
        for number in 0..rounds {
            clock.advance(std::time::Duration::from_secs(1));
            let lease = crate::ids::LeaseId::new(
                crate::ids::ProcessId::from_uuid(uuid::Uuid::nil()),
                crate::ids::LeaseNumber::new(number),
            );
            let name = LockName::new(format!("order:{number}")).unwrap();
            let now = store.server_now(&name).unwrap();
            let mut slots = lock(&store.inner.slots);
            slots.slot_or_new(&name, now, |slot| {
                let mode = crate::backend::AcquireMode::New { reserve: 0, floor: None };
                slot.acquire(
                    now,
                    lease,
                    std::time::Duration::from_secs(30),
                    now,
                    mode,
                    Some(slot_map::RETENTION),
                );
                slot.release(now, lease, 0);
            });
        }
        let names = lock(&store.inner.slots).len();
        assert!(names < 2_000, "{names} of {rounds} names are still kept");
    }
}
