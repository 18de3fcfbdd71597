//! The mutexes and atomics of std, and the runtimes and timers of tokio, for the whole crate; and the order in which a
//! thread may lock the mutexes, which debug builds check.
//!
//! A schedule explorer (`verify/shuttle`) replaces the imports in its copy of the sources.

pub(crate) use std::{
    hash::RandomState as Hashing,
    sync::{Mutex as RawMutex, MutexGuard as RawMutexGuard, atomic},
    thread_local,
};
pub(crate) use tokio::{
    runtime::{Handle, Id},
    time::{Sleep, sleep, timeout},
};

use rank::{Rank, Ranked};
use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    mem::size_of,
    ops::{Deref, DerefMut},
    sync::PoisonError,
    thread,
};

/// Calls `f` in the context of a runtime, so that timers which it creates belong to that runtime.
pub(crate) fn enter<T>(runtime: &Handle, f: impl FnOnce() -> T) -> T {
    let _entered = runtime.enter();
    f()
}

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
    use rank::Entry;
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

/// The order in which a thread may lock the mutexes of this crate.
pub(crate) mod rank {
    /// A mutex with the rank that its type names, for example `Mutex<rank::Entry, EntryState>`.
    pub(crate) trait Ranked {
        const RANK: Rank;
    }

    macro_rules! ranks {
        ($($(#[$doc:meta])* $mutex:ident,)+) => {
            /// The ranks. A thread that holds a mutex locks only mutexes of later ranks, so threads cannot deadlock.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub(crate) enum Rank {
                $($(#[$doc])* $mutex,)+
            }

            impl Rank {
                pub(super) const ALL: &[Self] = &[$(Self::$mutex),+];
            }

            $(
                $(#[$doc])*
                pub(crate) enum $mutex {}

                impl Ranked for $mutex {
                    const RANK: Rank = Rank::$mutex;
                }
            )+
        };
    }

    ranks! {
        /// A shard of a factory's table of lock names.
        Shard,
        /// The state of a lock name: its machine, and the slots of waiting futures.
        Entry,
        /// The agenda of a factory.
        Agenda,
        /// The events that are deferred in an entry without locking its state.
        DeferredEvents,
        /// The wakers of tasks that wait for a hold to end.
        Wakers,
        /// An operation, until it is answered.
        Submitted,
        /// The warnings of a factory that one line of its log sums up.
        Digest,
        /// The place of a factory's background work.
        Home,
        /// The keeper of the process.
        Keeper,
        /// The card of a process, with its notes.
        Card,
        /// The latest health check of the store.
        LatestCheck,
        /// The named in-memory stores. This and all later ranks are mutexes inside stores. The driver calls a store
        /// only while it holds no mutex.
        NamedStores,
        /// The contents of an in-memory store.
        SlotMap,
        /// The cards in an in-memory store.
        CardMap,
        /// The subscriptions to names.
        Subscriptions,
        /// The renewals that wait for the next call of an [`AsyncBackend`](crate::backend::AsyncBackend).
        Renewals,
        /// The sender of a reply to a future.
        Answer,
    }
}

thread_local! {
    /// One bit per rank.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

const _: () = assert!(Rank::ALL.len() <= u32::BITS as usize, "each rank has a bit");

/// Marks that its thread holds a mutex of the rank, until it is dropped.
struct Held<R: Ranked>(PhantomData<R>);

impl<R: Ranked> Held<R> {
    /// # Panics
    /// Panics in debug builds if the thread holds a mutex of the same or a later rank.
    #[track_caller]
    fn new() -> Self {
        if cfg!(debug_assertions) {
            let held = held();
            if let Some(last) = last(held).filter(|last| *last >= R::RANK && !thread::panicking()) {
                panic!(
                    "the mutex `{:?}` is locked under the mutex `{last:?}`: see the order in `sync.rs`",
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
    use super::{Mutex, assert_unlocked, lock, rank};
    use std::panic::catch_unwind;

    #[test]
    fn mutexes_are_locked_in_order() {
        let (entry, agenda) = (Mutex::<rank::Entry, _>::new(1), Mutex::<rank::Agenda, _>::new(2));
        for _ in 0..2 {
            let (entry, agenda) = (lock(&entry), lock(&agenda));
            assert_eq!((*entry, *agenda), (1, 2));
        }
        assert_eq!(*lock(&agenda), 2);
        assert_eq!(*lock(&entry), 1, "no other mutex is held any more");
        assert_unlocked("a waker");
    }

    #[test]
    fn guards_are_dropped_in_any_order() {
        let (entry, agenda) = (Mutex::<rank::Entry, _>::new(()), Mutex::<rank::Agenda, _>::new(()));
        let (first, second) = (lock(&entry), lock(&agenda));
        drop(first);
        drop(second);
        drop(lock(&entry));
        assert_unlocked("a waker");
    }

    #[test]
    #[cfg_attr(
        debug_assertions,
        should_panic(expected = "the mutex `Entry` is locked under the mutex `Agenda`")
    )]
    fn wrong_order_panics_in_debug_builds() {
        let (entry, agenda) = (Mutex::<rank::Entry, _>::new(()), Mutex::<rank::Agenda, _>::new(()));
        let _agenda = lock(&agenda);
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
        let (entry, agenda) = (Mutex::<rank::Entry, _>::new(()), Mutex::<rank::Agenda, _>::new(()));
        let wrong = catch_unwind(|| {
            let _agenda = lock(&agenda);
            drop(lock(&entry));
        });
        assert_eq!(wrong.is_err(), cfg!(debug_assertions));
        assert_unlocked("a waker");
        drop((lock(&entry), lock(&agenda)));
    }
}
