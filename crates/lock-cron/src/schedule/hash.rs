//! A hash that is the same on every node, for every version: `DefaultHasher` promises neither.

/// FNV-1a of 64 bits, mixed at the end (the finalizer of MurmurHash3), so that also its remainders are even.
#[derive(Clone, Copy)]
pub(crate) struct StableHash(u64);

impl StableHash {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes and their number: `ab`, `c` is not `a`, `bc`.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        self.raw(bytes).number(bytes.len() as i64)
    }

    pub(crate) fn number(self, number: i64) -> Self {
        self.raw(&number.to_le_bytes())
    }

    fn raw(self, bytes: &[u8]) -> Self {
        Self(
            bytes
                .iter()
                .fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)),
        )
    }

    pub(crate) fn finish(self) -> u64 {
        let mut hash = self.0;
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_version_must_not_move_the_jobs_of_a_fleet() {
        // Calculated by hand, in another language.
        assert_eq!(StableHash::new().bytes(b"invoices").finish(), 0xff4e_6bce_da37_0d77);
    }

    #[test]
    fn jobs_are_spread_over_the_hour() {
        let mut minutes = [0; 60];
        for job in 0..6_000 {
            let hash = StableHash::new().bytes(format!("job-{job}").as_bytes()).finish();
            minutes[(hash % 60) as usize] += 1;
        }
        assert!(minutes.iter().all(|jobs| (60..=140).contains(jobs)), "{minutes:?}");
    }
}
