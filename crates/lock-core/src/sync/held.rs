//! The mutexes that a thread holds. Debug builds track and check them; release builds do neither.

use super::{
    rank::{Rank, Ranked},
    thread_local,
};
use std::{cell::Cell, marker::PhantomData, thread};

thread_local! {
    /// One bit per rank.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

const _: () = assert!(Rank::ALL.len() <= u32::BITS as usize, "each rank has a bit");

/// Marks that its thread holds a mutex of the rank, until it is dropped.
pub(super) struct Held<R: Ranked>(PhantomData<R>);

impl<R: Ranked> Held<R> {
    /// # Panics
    /// Panics in debug builds if the thread holds a mutex of the same or a later rank.
    #[track_caller]
    pub(super) fn new() -> Self {
        if cfg!(debug_assertions) {
            let held = held();
            if let Some(last) = last(held).filter(|last| *last >= R::RANK && !thread::panicking()) {
                panic!(
                    "the mutex `{:?}` is locked under the mutex `{last:?}`: see the order in `sync/rank.rs`",
                    R::RANK
                );
            }
            set_held(held | 1 << R::RANK as u32);
        }
        Self(PhantomData)
    }
}

#[cfg(debug_assertions)]
impl<R: Ranked> Drop for Held<R> {
    fn drop(&mut self) {
        set_held(held() & !(1 << R::RANK as u32));
    }
}

/// Checks that the thread may run foreign code, such as a waker: it may lock any mutex, and may panic.
///
/// # Panics
/// Panics in debug builds if the thread holds a mutex of this crate.
#[track_caller]
pub(crate) fn assert_unlocked(code: &'static str) {
    if cfg!(debug_assertions)
        && let Some(last) = last(held()).filter(|_| !thread::panicking())
    {
        panic!("{code} is called under the mutex `{last:?}`");
    }
}

/// Returns the latest rank in `held`, a set with one bit per rank.
fn last(held: u32) -> Option<Rank> {
    held.checked_ilog2().map(|bit| Rank::ALL[bit as usize])
}

fn held() -> u32 {
    // The thread locals of a thread that is ending may be gone.
    HELD.try_with(Cell::get).unwrap_or(0)
}

fn set_held(held: u32) {
    let _ = HELD.try_with(|of_thread| of_thread.set(held));
}

#[cfg(test)]
mod tests {
    use super::assert_unlocked;
    use crate::sync::{Mutex, lock, rank};
    use std::panic::catch_unwind;

    #[test]
    fn mutexes_are_locked_in_order() {
        let (entry, schedule) = (Mutex::<rank::Entry, _>::new(1), Mutex::<rank::Schedule, _>::new(2));
        for _ in 0..2 {
            let (entry, schedule) = (lock(&entry), lock(&schedule));
            assert_eq!((*entry, *schedule), (1, 2));
        }
        assert_eq!(*lock(&schedule), 2);
        assert_eq!(*lock(&entry), 1, "no other mutex is held any more");
        assert_unlocked("a waker");
    }

    #[test]
    fn guards_are_dropped_in_any_order() {
        let (entry, schedule) = (Mutex::<rank::Entry, _>::new(()), Mutex::<rank::Schedule, _>::new(()));
        let (first, second) = (lock(&entry), lock(&schedule));
        drop(first);
        drop(second);
        drop(lock(&entry));
        assert_unlocked("a waker");
    }

    #[test]
    #[cfg_attr(
        debug_assertions,
        should_panic(expected = "the mutex `Entry` is locked under the mutex `Schedule`")
    )]
    fn wrong_order_panics_in_debug_builds() {
        let (entry, schedule) = (Mutex::<rank::Entry, _>::new(()), Mutex::<rank::Schedule, _>::new(()));
        let _schedule = lock(&schedule);
        let _entry = lock(&entry);
    }

    #[test]
    #[cfg_attr(
        debug_assertions,
        should_panic(expected = "the mutex `Entry` is locked under the mutex `Entry`")
    )]
    fn equal_rank_panics_in_debug_builds() {
        let (one, other) = (Mutex::<rank::Entry, _>::new(()), Mutex::<rank::Entry, _>::new(()));
        let _one = lock(&one);
        let _other = lock(&other);
    }

    #[test]
    fn panic_unlocks_the_mutexes_of_its_thread() {
        let (entry, schedule) = (Mutex::<rank::Entry, _>::new(()), Mutex::<rank::Schedule, _>::new(()));
        let wrong = catch_unwind(|| {
            let _schedule = lock(&schedule);
            drop(lock(&entry));
        });
        assert_eq!(wrong.is_err(), cfg!(debug_assertions));
        assert_unlocked("a waker");
        drop((lock(&entry), lock(&schedule)));
    }
}
