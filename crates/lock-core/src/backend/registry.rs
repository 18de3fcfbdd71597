//! The subscriptions of a process to names: the list that every store with wake-ups keeps.

use super::{MissedWakes, SubscriberId, WakeListener};
use crate::{
    name::LockName,
    sync::{Mutex, lock, rank},
    wake::contained,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Weak},
};

/// The listeners that were registered with a store, and the names to which each of them subscribed.
///
/// Factories are called without any mutex held, and a panic of one keeps no other from being called. They are forgotten by
/// [`forget_gone`](SubscriptionRegistry::forget_gone).
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

    /// Forgets the subscribers that are gone, and says which names nobody watches any more. Of those that ended with their
    /// runtime nobody hears otherwise.
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

    /// Subscribes to a name. Subscribing twice is subscribing once.
    pub fn subscribe(&self, subscriber: SubscriberId, name: LockName) {
        lock(&self.state).watching.entry(name).or_default().insert(subscriber);
    }

    /// Ends a subscription; `true` if the name has no other.
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

    /// Reports a release to every subscriber of the name, and counts them.
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

    /// How many pairs of subscriber and name there are.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.state).watching.values().map(HashSet::len).sum()
    }

    /// Whether nobody watches anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
