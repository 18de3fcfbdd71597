//! Stores that push a release to the processes that wait for it: the contract, the listener of a process, and a
//! registry of listeners for such stores.

use super::BackendError;
use crate::{
    name::LockName,
    sync::{Mutex, lock, rank},
    wake::contained,
};
use async_trait::async_trait;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Debug,
    sync::{Arc, Weak},
};
/// The wake-ups of a store. A store that cannot push does not implement this trait; its waiters poll.
///
/// Futures of this trait may be dropped at any await; the subscription may or may not exist afterwards.
#[async_trait]
pub trait Subscriptions: Debug + Send + Sync + 'static {
    /// Registers a factory's listener; called once per factory. A dropped listener is removed.
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId;

    /// Requests [`WakeListener::released`] for this name. Returns once the subscription is *acknowledged*: every
    /// later release is reported. Subscribing twice has no further effect.
    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError>;

    /// Ends a subscription created by [`subscribe`](Self::subscribe).
    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError>;
}

/// The receiver of a backend's wake-ups, implemented by the factory. Calls return without blocking and may come from
/// any thread. A wake-up is a hint: correctness does not depend on its arrival, and a superfluous one costs one
/// request.
///
/// Do not hold a mutex while calling it. With [`Capabilities::wakes_in_task`](super::Capabilities::wakes_in_task), the
/// factory runs a lock's state machine and its observers inside the call, and may submit operations.
pub trait WakeListener: Debug + Send + Sync {
    /// Called when the lock is released, with its name in the store.
    fn released(&self, name: &LockName);

    /// Called when wake-ups may have been missed: every waiter requests the lock again.
    fn wake_all(&self, reason: MissedWakes);

    /// Called when the server has restarted, perhaps without its data: every hold is verified, and every waiter
    /// requests the lock again.
    fn server_restarted(&self);
}

/// The reason why every waiter is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedWakes {
    /// The connection that carries wake-ups was replaced.
    Reconnected,
    /// The reader of wake-ups lagged behind and dropped some.
    Lagged,
}

/// The id of a registered listener, chosen by the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberId(u64);

impl SubscriberId {
    /// Creates an id from a number that the backend assigns.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The listeners registered with a store, and the names to which each is subscribed.
///
/// Listeners are called without any mutex held, and a panic in one does not prevent the others from being called.
/// [`forget_gone`](SubscriptionRegistry::forget_gone) removes listeners that were dropped.
#[derive(Debug, Default)]
pub struct SubscriptionRegistry {
    state: Mutex<rank::Subscriptions, State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    subscribers: BTreeMap<SubscriberId, Weak<dyn WakeListener>>,
    watching: HashMap<LockName, HashSet<SubscriberId>>,
}

impl SubscriptionRegistry {
    /// Registers a listener.
    pub fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        let mut state = lock(&self.state);
        let id = SubscriberId::new(state.next);
        state.next += 1;
        state.subscribers.insert(id, listener);
        id
    }

    /// Removes subscribers that were dropped and returns the names that have no subscriber left. Without
    /// this call, the subscriptions of a factory that ended before it unsubscribed would remain.
    pub fn forget_gone(&self) -> Vec<LockName> {
        let mut state = lock(&self.state);
        let State { subscribers, watching, .. } = &mut *state;
        let before = subscribers.len();
        subscribers.retain(|_, signals| signals.strong_count() > 0);
        if subscribers.len() == before {
            return Vec::new();
        }
        watching.values_mut().for_each(|ids| ids.retain(|id| subscribers.contains_key(id)));
        watching.extract_if(|_, ids| ids.is_empty()).map(|(name, _)| name).collect()
    }

    /// Subscribes to a name. Subscribing twice has no further effect.
    pub fn subscribe(&self, subscriber: SubscriberId, name: LockName) {
        lock(&self.state).watching.entry(name).or_default().insert(subscriber);
    }

    /// Ends a subscription. Returns `true` if no subscriber of the name is left.
    pub fn unsubscribe(&self, subscriber: SubscriberId, name: &LockName) -> bool {
        let mut state = lock(&self.state);
        let Some(ids) = state.watching.get_mut(name) else { return true };
        ids.remove(&subscriber);
        let nobody = ids.is_empty();
        if nobody {
            state.watching.remove(name);
        }
        nobody
    }

    /// Reports a release to every subscriber of the name and returns their number.
    pub fn released(&self, name: &LockName) -> u32 {
        let listeners: Vec<Arc<dyn WakeListener>> = {
            let state = lock(&self.state);
            let Some(ids) = state.watching.get(name) else { return 0 };
            ids.iter().filter_map(|id| state.subscribers.get(id)?.upgrade()).collect()
        };
        for listener in &listeners {
            contained("a listener", || listener.released(name));
        }
        u32::try_from(listeners.len()).unwrap_or(u32::MAX)
    }

    /// Reports to every listener that wake-ups may have been missed.
    pub fn wake_all(&self, reason: MissedWakes) {
        for listener in self.everybody() {
            contained("a listener", || listener.wake_all(reason));
        }
    }

    /// Reports to every listener that the server restarted.
    pub fn server_restarted(&self) {
        for listener in self.everybody() {
            contained("a listener", || listener.server_restarted());
        }
    }

    fn everybody(&self) -> Vec<Arc<dyn WakeListener>> {
        lock(&self.state).subscribers.values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the names that have subscribers, for a store that has to look for releases.
    #[must_use]
    pub fn names(&self) -> Vec<LockName> {
        lock(&self.state).watching.keys().cloned().collect()
    }

    /// Returns the number of (subscriber, name) pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.state).watching.values().map(HashSet::len).sum()
    }

    /// Returns `true` if there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
