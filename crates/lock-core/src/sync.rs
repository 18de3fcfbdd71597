//! Std mutexes that guard a few lines of plain data.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic elsewhere: what our mutexes guard is consistent at every statement that can panic,
/// and a guard must be releasable while a panic unwinds.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
