//! Mutexes with a rank in the lock order.

use super::{RawMutex, RawMutexGuard, held::Held, rank::Ranked};
use std::{
    fmt,
    marker::PhantomData,
    mem::size_of,
    ops::{Deref, DerefMut},
    sync::PoisonError,
};

/// A mutex of rank `R`.
pub(crate) struct Mutex<R, T> {
    raw: RawMutex<T>,
    rank: PhantomData<R>,
}

#[must_use = "the mutex is unlocked immediately"]
pub(crate) struct MutexGuard<'a, R: Ranked, T> {
    raw: RawMutexGuard<'a, T>,
    _held: Held<R>,
}

// The rank occupies no space, and release builds do no work for it.
const _: () = {
    use super::rank::Entry;
    assert!(size_of::<Mutex<Entry, u64>>() == size_of::<RawMutex<u64>>());
    assert!(size_of::<MutexGuard<'_, Entry, u64>>() == size_of::<RawMutexGuard<'_, u64>>());
    assert!(std::mem::needs_drop::<Held<Entry>>() == cfg!(debug_assertions));
};

impl<R, T> Mutex<R, T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { raw: RawMutex::new(value), rank: PhantomData }
    }
}

/// Locks a mutex, even after a panic elsewhere: the data is consistent at every statement that can panic, and a guard
/// must be releasable while a panic unwinds. Critical sections are short and use only plain data.
///
/// # Panics
/// Panics in debug builds if the thread holds a mutex of the same or a later rank.
#[track_caller]
pub(crate) fn lock<R: Ranked, T>(mutex: &Mutex<R, T>) -> MutexGuard<'_, R, T> {
    // Before the thread waits, so that a wrong order panics instead of deadlocking.
    let held = Held::new();
    MutexGuard { raw: lock_raw(&mutex.raw), _held: held }
}

/// Locks a mutex without a rank in the same way.
pub fn lock_raw<T>(mutex: &RawMutex<T>) -> RawMutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R, T: Default> Default for Mutex<R, T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<R, T: fmt::Debug> fmt::Debug for Mutex<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<R: Ranked, T> Deref for MutexGuard<'_, R, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<R: Ranked, T> DerefMut for MutexGuard<'_, R, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}
