//! The mutexes and atomics of std, and the runtimes and timers of tokio, for the whole crate.
//!
//! A schedule explorer (`verify/shuttle`) replaces these imports in its copy of the sources.

mod held;
mod mutex;
pub(crate) mod rank;

pub(crate) use held::assert_unlocked;
pub use mutex::lock_raw;
pub(crate) use mutex::{Mutex, lock};
pub(crate) use std::{
    hash::RandomState as Hashing,
    sync::{Mutex as RawMutex, MutexGuard as RawMutexGuard, atomic},
    thread_local,
};
pub(crate) use tokio::{
    runtime::{Handle, Id},
    time::{Instant, Sleep, sleep, timeout},
};

/// Calls `f` in the context of a runtime, so that timers which it creates belong to that runtime.
pub(crate) fn enter<T>(runtime: &Handle, f: impl FnOnce() -> T) -> T {
    let _entered = runtime.enter();
    f()
}
