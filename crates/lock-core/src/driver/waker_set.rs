//! The wakers of tasks that wait for the same event.

pub(super) use crate::wake::{contained, wake};

use crate::sync::{Mutex, lock, rank};
use std::{collections::BTreeMap, task::Waker};

#[derive(Debug, Default)]
pub(super) struct WakerSet(Mutex<rank::Wakers, Wakers>);

#[derive(Debug, Default)]
struct Wakers {
    last_key: u64,
    by_key: BTreeMap<u64, Waker>,
}

/// The key of a waiting task in a [`WakerSet`]. The task removes it when it stops waiting.
#[derive(Debug, Default)]
pub(super) struct WakerKey(Option<u64>);

impl WakerSet {
    /// Sets the waker of this key.
    pub(super) fn register(&self, key: &mut WakerKey, waker: &Waker) {
        let waker = waker.clone();
        let before = {
            let mut wakers = lock(&self.0);
            let key = *key.0.get_or_insert_with(|| {
                wakers.last_key += 1;
                wakers.last_key
            });
            wakers.by_key.insert(key, waker)
        };
        drop(before);
    }

    pub(super) fn remove(&self, key: &WakerKey) {
        let before = key.0.and_then(|key| lock(&self.0).by_key.remove(&key));
        drop(before);
    }

    pub(super) fn wake_all(&self) {
        let wakers = std::mem::take(&mut lock(&self.0).by_key);
        wakers.into_values().for_each(wake);
    }
}
