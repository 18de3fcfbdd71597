//! The source of lease ids and jitter: the operating system, or, in a simulation, a seed.

use crate::sync::{Mutex, lock, rank};
use std::fmt;
#[cfg(feature = "__internal")]
use std::sync::Arc;

pub(crate) enum Random {
    System(Mutex<rank::Random, Drawn>),
    #[cfg(feature = "__internal")]
    Given(Arc<dyn Fn() -> u64 + Send + Sync>),
}

/// Numbers that are drawn in batches, since each draw is a system call.
#[derive(Default)]
pub(crate) struct Drawn(Vec<u64>);

/// The number of random numbers per draw.
const DRAWN_TOGETHER: usize = 64;

impl Drawn {
    fn next(&mut self) -> u64 {
        self.0.pop().unwrap_or_else(|| {
            let mut bytes = [[0; 8]; DRAWN_TOGETHER];
            getrandom::fill(bytes.as_flattened_mut()).expect("the operating system provides random numbers");
            let [first, rest @ ..] = bytes.map(u64::from_ne_bytes);
            self.0.extend(rest);
            first
        })
    }
}

impl Random {
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::System(drawn) => lock(drawn).next(),
            #[cfg(feature = "__internal")]
            Self::Given(number) => number(),
        }
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::System(Mutex::default())
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}
