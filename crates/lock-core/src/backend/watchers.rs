//! Who watches which name: the list that every backend with wake-ups keeps.

use super::{MissedWakes, SubscriberId, WakeListener};
use crate::{
    name::LockName,
    sync::{Mutex, lock},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Weak},
};

/// The factories that attached to a backend, and the names that each of them watches.
///
/// Factories are called without any mutex held, and forgotten by [`forget_gone`](SubscriptionRegistry::forget_gone).
#[derive(Debug, Default)]
pub struct SubscriptionRegistry {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    subscribers: BTreeMap<SubscriberId, Weak<dyn WakeListener>>,
    watching: HashMap<LockName, HashSet<SubscriberId>>,
}

impl SubscriptionRegistry {
    /// A new subscriber.
    pub fn attach(&self, signals: Weak<dyn WakeListener>) -> SubscriberId {
        let mut state = lock(&self.state);
        let id = SubscriberId::new(state.next);
        state.next += 1;
        state.subscribers.insert(id, signals);
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

    /// The subscriber watches the name.
    pub fn watch(&self, subscriber: SubscriberId, name: LockName) {
        lock(&self.state).watching.entry(name).or_default().insert(subscriber);
    }

    /// The subscriber no longer watches the name; `true` if nobody does now.
    pub fn unwatch(&self, subscriber: SubscriberId, name: &LockName) -> bool {
        let mut state = lock(&self.state);
        let Some(ids) = state.watching.get_mut(name) else { return true };
        ids.remove(&subscriber);
        let nobody = ids.is_empty();
        if nobody {
            state.watching.remove(name);
        }
        nobody
    }

    /// Tells every watcher of the name, and counts them.
    pub fn freed(&self, name: &LockName) -> u32 {
        let listeners: Vec<Arc<dyn WakeListener>> = {
            let state = lock(&self.state);
            let Some(ids) = state.watching.get(name) else { return 0 };
            ids.iter().filter_map(|id| state.subscribers.get(id)?.upgrade()).collect()
        };
        for listener in &listeners {
            listener.freed(name);
        }
        u32::try_from(listeners.len()).unwrap_or(u32::MAX)
    }

    /// Tells every subscriber that wake-ups may have been missed.
    pub fn all(&self, reason: MissedWakes) {
        self.everybody().iter().for_each(|listener| listener.all(reason));
    }

    /// Tells every subscriber that the server restarted.
    pub fn node_restarted(&self) {
        self.everybody().iter().for_each(|listener| listener.node_restarted());
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
