//! Who is told when a lock of the in-memory store is freed.

use crate::{
    backend::{Signals, SubscriberId},
    name::LockName,
    sync::lock,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
};

#[derive(Default)]
pub(super) struct Watchers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    subscribers: BTreeMap<SubscriberId, Weak<dyn Signals>>,
    watching: HashMap<LockName, HashSet<SubscriberId>>,
}

impl Watchers {
    pub(super) fn attach(&self, signals: Weak<dyn Signals>) -> SubscriberId {
        let mut state = lock(&self.state);
        let gone: Vec<_> =
            state.subscribers.iter().filter(|(_, s)| s.strong_count() == 0).map(|(id, _)| *id).collect();
        for id in gone {
            state.subscribers.remove(&id);
            state.watching.retain(|_, ids| {
                ids.remove(&id);
                !ids.is_empty()
            });
        }
        let id = SubscriberId::new(state.next);
        state.next += 1;
        state.subscribers.insert(id, signals);
        id
    }

    pub(super) fn watch(&self, subscriber: SubscriberId, name: LockName) {
        lock(&self.state).watching.entry(name).or_default().insert(subscriber);
    }

    pub(super) fn unwatch(&self, subscriber: SubscriberId, name: &LockName) {
        let mut state = lock(&self.state);
        if let Some(ids) = state.watching.get_mut(name) {
            ids.remove(&subscriber);
            if ids.is_empty() {
                state.watching.remove(name);
            }
        }
    }

    /// Tells every watcher of the name and counts them. They are called without the lock.
    pub(super) fn freed(&self, name: &LockName) -> u32 {
        let listeners: Vec<Arc<dyn Signals>> = {
            let state = lock(&self.state);
            let Some(ids) = state.watching.get(name) else { return 0 };
            ids.iter().filter_map(|id| state.subscribers.get(id)?.upgrade()).collect()
        };
        for listener in &listeners {
            listener.freed(name);
        }
        u32::try_from(listeners.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn node_restarted(&self) {
        let everyone: Vec<_> = lock(&self.state).subscribers.values().filter_map(Weak::upgrade).collect();
        for listener in everyone {
            listener.node_restarted();
        }
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.state).watching.values().map(HashSet::len).sum()
    }
}
