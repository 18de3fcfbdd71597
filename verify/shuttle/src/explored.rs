//! The stand-ins for tokio's runtime and time while schedules are explored.
//!
//! A [`Runtime`] is a number and a list of tasks, which can be shut down at any moment. Time stands still until a test moves
//! it: a task that waits for a notification that nobody sends is a deadlock, and no timer covers it up.

mod runtime;
mod time;

pub use runtime::Runtime;
pub(crate) use runtime::{Handle, Id};
use std::hash::{BuildHasherDefault, DefaultHasher};
pub use time::{ExploredClock, advance, elapsed, next_timer, restart_time};
pub(crate) use time::{Instant, Sleep, sleep, timeout};

/// One and the same in every run, so that a schedule can be repeated.
pub(crate) type Hashing = BuildHasherDefault<DefaultHasher>;
