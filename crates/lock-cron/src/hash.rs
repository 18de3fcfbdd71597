//! The stable hash: SipHash-2-4 with a key of zeros, the same on every node and in every version.
//!
//! `DefaultHasher` guarantees neither. SipHash is fixed by its specification. Its bits are evenly
//! distributed, and so are its remainders.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

#[derive(Clone, Copy)]
pub(crate) struct StableHash(SipHasher24);

impl StableHash {
    pub(crate) fn new() -> Self {
        Self(SipHasher24::new())
    }

    /// Hashes one string.
    pub(crate) fn of(text: &str) -> u64 {
        Self::new().text(text).finish()
    }

    /// Adds a string and its length, so `ab`, `c` differs from `a`, `bc`.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.write(text.as_bytes());
        self.number(text.len() as i64)
    }

    /// Adds a number.
    pub(crate) fn number(mut self, number: i64) -> Self {
        // `write_i64` uses the byte order of the platform.
        self.0.write(&number.to_le_bytes());
        self
    }

    pub(crate) fn finish(self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_in_every_version() {
        // Computed from the specification by an independent implementation.
        assert_eq!(StableHash::of("invoices"), 0xe902_643b_24e7_04d1);
    }

    #[test]
    fn jobs_are_spread_over_the_hour() {
        let mut minutes = [0; 60];
        for job in 0..6_000 {
            minutes[(StableHash::of(&format!("job-{job}")) % 60) as usize] += 1;
        }
        assert!(minutes.iter().all(|jobs| (60..=140).contains(jobs)), "{minutes:?}");
    }
}
