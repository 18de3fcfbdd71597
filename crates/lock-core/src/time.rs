//! The two kinds of time: moments of the process, on which decisions are based, and times of a wall clock.

use std::{
    fmt,
    num::NonZeroU64,
    ops::{Add, Sub},
    time::Duration,
};

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

/// The arithmetic of both times. It saturates, since a distant moment is equivalent to never. The origin is stored
/// as 1, so that an `Option` of a time takes no more space than the time.
macro_rules! counts_micros {
    ($time:ident) => {
        const _: () = assert!(size_of::<Option<$time>>() == size_of::<$time>());

        impl $time {
            /// Creates the time this many microseconds after the origin.
            #[must_use]
            pub const fn from_micros(micros: u64) -> Self {
                Self(NonZeroU64::MIN.saturating_add(micros))
            }

            /// Returns the microseconds since the origin.
            #[must_use]
            pub const fn as_micros(self) -> u64 {
                self.0.get() - 1
            }

            /// Returns the time that elapsed from `earlier` to `self`; zero if `earlier` is later.
            #[must_use]
            pub const fn since(self, earlier: Self) -> Duration {
                Duration::from_micros(self.0.get().saturating_sub(earlier.0.get()))
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
                Self::from_micros(self.as_micros().saturating_sub(micros(d)))
            }
        }

        impl Default for $time {
            fn default() -> Self {
                Self::from_micros(0)
            }
        }
    };
}

mod date;
mod utc;

pub use utc::UtcTime;

/// A moment of this process: microseconds since its [`Clock`](crate::clock::Clock) was created. It never steps, and
/// on Linux and Android it advances while the machine is suspended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(NonZeroU64);

counts_micros!(Moment);

impl Moment {
    /// The creation of the clock.
    pub const START: Self = Self::from_micros(0);
    /// A moment that is never reached.
    pub const NEVER: Self = Self::from_micros(u64::MAX);
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => write!(f, "never"),
            Self(_) => write!(f, "{}.{:06} s", self.as_micros() / 1_000_000, self.as_micros() % 1_000_000),
        }
    }
}
