//! Durations: usually sensible, sometimes arbitrary.

use arbitrary::{Arbitrary, Result, Unstructured};
use std::time::Duration;

/// An arbitrary duration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnyDuration(pub(crate) Duration);

impl<'a> Arbitrary<'a> for AnyDuration {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self(match u.int_in_range(0..=3)? {
            0 => Duration::from_millis(u.int_in_range(0..=99_999)?),
            1 => Duration::from_micros(u.int_in_range(0..=999_999)?),
            2 => Duration::from_secs(u.int_in_range(0..=999_999)?),
            _ => Duration::new(u.arbitrary()?, 0),
        }))
    }
}

/// Returns a number of milliseconds below `bound`.
pub(crate) fn millis_below(u: &mut Unstructured<'_>, bound: u64) -> Result<Duration> {
    Ok(Duration::from_millis(u.int_in_range(0..=bound - 1)?))
}
