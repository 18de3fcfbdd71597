//! The named in-memory stores of this process: `memory:shop` is one store for all its users.

use super::{Inner, MemoryBackend};
use crate::sync::{Mutex, lock, rank};
use std::{
    collections::HashMap,
    sync::{OnceLock, Weak},
};

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
    named.insert(name.to_owned(), std::sync::Arc::downgrade(&made.inner));
    made
}
