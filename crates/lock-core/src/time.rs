//! The two times of a lock: moments of the process, on which its decisions are based, and instants of a wall clock.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

/// The arithmetic of both times. It saturates, since a distant moment is equivalent to never.
macro_rules! counts_micros {
    ($time:ident) => {
        impl $time {
            /// Creates the time this many microseconds after the origin.
            #[must_use]
            pub const fn from_micros(micros: u64) -> Self {
                Self(micros)
            }

            /// Returns the microseconds since the origin.
            #[must_use]
            pub const fn as_micros(self) -> u64 {
                self.0
            }

            /// Returns the time that elapsed from `earlier` to `self`; zero if `earlier` is later.
            #[must_use]
            pub const fn since(self, earlier: Self) -> Duration {
                Duration::from_micros(self.0.saturating_sub(earlier.0))
            }
        }

        impl Add<Duration> for $time {
            type Output = Self;
            fn add(self, d: Duration) -> Self {
                Self(self.0.saturating_add(micros(d)))
            }
        }

        impl Sub<Duration> for $time {
            type Output = Self;
            fn sub(self, d: Duration) -> Self {
                Self(self.0.saturating_sub(micros(d)))
            }
        }
    };
}

mod date;
mod utc;

pub use utc::UtcTime;

/// A moment of this process: microseconds since its [`Clock`](crate::clock::Clock) was created. It never steps, and
/// on Linux and Android it advances while the machine is suspended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Moment(u64);

counts_micros!(Moment);

impl Moment {
    /// The creation of the clock.
    pub const START: Self = Self(0);
    /// A moment that is never reached.
    pub const NEVER: Self = Self(u64::MAX);
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => write!(f, "never"),
            Self(at) => write!(f, "{}.{:06} s", at / 1_000_000, at % 1_000_000),
        }
    }
}
