//! Std's mutexes and atomics and tokio's runtime, or what stands in for them while `lock-shuttle` explores schedules.
//!
//! Mutexes guard a few lines of plain data.

#[cfg(shuttle)]
pub(crate) use crate::explored::{
    Handle, Hashing, Id, Instant, Plant, Sleep,
    mutex::{Mutex, MutexGuard, atomic},
    planted, sleep, timeout,
};
use std::sync::PoisonError;
#[cfg(not(shuttle))]
pub(crate) use std::{
    hash::RandomState as Hashing,
    sync::{Mutex, MutexGuard, atomic},
};
#[cfg(not(shuttle))]
pub(crate) use tokio::{
    runtime::{Handle, Id},
    time::{Instant, Sleep, sleep, timeout},
};

/// Locks, also after a panic elsewhere: what our mutexes guard is consistent at every statement that can panic,
/// and a guard must be releasable while a panic unwinds.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
