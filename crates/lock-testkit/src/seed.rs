//! Seeds for reproducible randomness.

use lock_core::backend::ProcessId;
use std::{env, fmt};

/// The seed of a test. All randomness in a run is derived from the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Seed {
    /// The environment variable from which [`Seed::of_this_run`] repeats a run.
    pub const VARIABLE: &str = "LOCK_TEST_SEED";

    /// Creates a seed from a number.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the seed in the environment variable `LOCK_TEST_SEED`, or a new one. Prints the
    /// seed, so a failing run can be repeated.
    ///
    /// # Panics
    /// Panics if the variable is not a number.
    #[must_use]
    pub fn of_this_run() -> Self {
        let seed = match env::var(Self::VARIABLE) {
            Ok(given) => {
                Self(given.parse().expect("LOCK_TEST_SEED must be a decimal number that fits in a u64"))
            }
            Err(_) => Self(ProcessId::random().as_uuid().as_u64_pair().1),
        };
        eprintln!("{}={seed}", Self::VARIABLE);
        seed
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the stream of numbers derived from this seed.
    #[must_use]
    pub fn stream(self) -> Stream {
        Stream(fastrand::Rng::with_seed(self.0))
    }
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A stream of pseudo-random numbers. Not suitable for secrets.
#[derive(Debug, Clone)]
pub struct Stream(fastrand::Rng);

impl Stream {
    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.u64(..bound) }
    }

    /// Returns `true` with this probability, from 0 to 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.0.f64() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut stream = Seed::new(seed).stream();
            [(); 5].map(|()| stream.number())
        };
        assert_eq!(
            numbers(1_234_567)[0],
            13_725_641_357_320_173_039,
            "the generator changed: printed seeds no longer repeat their runs"
        );
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn numbers_and_chances_are_evenly_distributed() {
        let mut stream = Seed::new(3).stream();
        let mut hits = [0u32; 6];
        for _ in 0..6_000 {
            hits[usize::try_from(stream.below(6)).unwrap()] += 1;
        }
        assert!(hits.iter().all(|n| (800..1_200).contains(n)), "{hits:?}");
        let yes = (0..10_000).filter(|_| stream.chance(0.3)).count();
        assert!((2_800..3_200).contains(&yes), "{yes}");
        assert!(!stream.chance(0.0) && stream.chance(1.0) && stream.below(0) == 0);
    }
}
