//! Replacements for tokio's runtime and time while schedules are explored.
//!
//! A [`Runtime`] is a number and a list of tasks, and can be shut down at any moment. Time only advances when a test
//! advances it. A task that waits for a notification that never comes is thus a deadlock, which no timer hides.

mod runtime;
mod time;

pub use runtime::Runtime;
pub(crate) use runtime::{Handle, Id, enter};
use std::hash::{BuildHasherDefault, DefaultHasher};
pub use time::{ExploredClock, advance, elapsed, next_timer, restart_time};
pub(crate) use time::{Sleep, sleep, timeout};

/// The same in every run, so that schedules can be repeated.
pub(crate) type Hashing = BuildHasherDefault<DefaultHasher>;
