//! Randomness that can be repeated: a seed, printed, and pasted back.

use lock_core::backend::ProcessId;
use std::{env, fmt};

/// Where randomness of a test begins. Everything random of a run is derived from one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Seed {
    /// The environment variable from which [`Seed::of_this_run`] repeats a run.
    pub const VARIABLE: &str = "LOCK_TEST_SEED";

    /// This seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed in the environment variable `LOCK_TEST_SEED`, or a fresh one; printed, so that a failing run can
    /// be repeated.
    ///
    /// # Panics
    /// If the variable holds no number.
    #[must_use]
    pub fn of_this_run() -> Self {
        let seed = match env::var(Self::VARIABLE) {
            Ok(given) => Self(given.parse().expect("LOCK_TEST_SEED is a decimal number that fits a u64")),
            Err(_) => Self(ProcessId::random().as_uuid().as_u64_pair().1),
        };
        eprintln!("{}={seed}", Self::VARIABLE);
        seed
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The stream of numbers that this seed gives.
    #[must_use]
    pub const fn stream(self) -> Stream {
        Stream { state: self.0 }
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

/// A stream of pseudo-random numbers: `SplitMix64` (Steele, Lea and Flood, 2014). Not for secrets.
#[derive(Debug, Clone)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0. (Its bias is below `bound / 2⁶⁴`.)
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.number()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// True with this probability, from 0 to 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        let unit = (self.number() >> 11) as f64 / (1u64 << 53) as f64;
        unit < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers() {
        let numbers = |seed| {
            let mut stream = Seed::new(seed).stream();
            [(); 5].map(|()| stream.number())
        };
        assert_eq!(
            numbers(1_234_567)[0],
            6_457_827_717_110_365_317,
            "the reference's first number of this seed"
        );
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn numbers_and_chances_are_spread() {
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
