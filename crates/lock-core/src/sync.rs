//! The mutexes and atomics of std, and the runtimes and timers of tokio, for the whole crate.
//!
//! A schedule explorer (`verify/shuttle`) replaces these imports in its copy of the sources.

use std::sync::PoisonError;
pub(crate) use std::{
    hash::RandomState as Hashing,
    sync::{Mutex, MutexGuard, atomic},
};
pub(crate) use tokio::{
    runtime::{Handle, Id},
    time::{Instant, Sleep, sleep, timeout},
};

/// Locks, also after a panic elsewhere: what our mutexes guard is consistent at every statement that can panic, and a guard
/// must be releasable while a panic unwinds. Mutexes guard a few lines of plain data.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
