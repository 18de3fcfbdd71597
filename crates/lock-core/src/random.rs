//! The source of lease ids and jitter: the operating system, or, in a simulation, a seed.
//!
//! No numbers are kept for later: a copy of the process would have them as well.

use std::fmt;
#[cfg(feature = "__internal")]
use std::sync::Arc;

#[derive(Clone, Default)]
pub(crate) enum Random {
    #[default]
    System,
    #[cfg(feature = "__internal")]
    Given(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl Random {
    /// Draws a number that nothing else has, not even a copy of this process. Returns `None` if the operating system
    /// has no random numbers.
    pub(crate) fn unique(&self) -> Option<u64> {
        match self {
            Self::System => getrandom::u64().ok(),
            #[cfg(feature = "__internal")]
            Self::Given(number) => Some(number()),
        }
    }

    /// Draws a number that spreads times. Without random numbers, nothing is spread.
    pub(crate) fn jitter(&self) -> u64 {
        self.unique().unwrap_or_default()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_draws_other_numbers() {
        let original = Random::default();
        original.unique();
        let copy = original.clone();
        let drawn = |random: &Random| (0..64).filter_map(|_| random.unique()).collect::<Vec<_>>();
        let (of_original, of_copy) = (drawn(&original), drawn(&copy));
        assert_eq!(of_original.len(), 64);
        assert!(of_original.iter().all(|number| !of_copy.contains(number)));
    }
}
