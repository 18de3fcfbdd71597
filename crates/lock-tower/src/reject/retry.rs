//! When those who were refused should come back.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Once to twice the patience of the layer, evenly spread, in whole milliseconds: `Retry-After` and `retry_after_ms` say
/// the same.
pub(super) fn after(patience: Duration) -> Duration {
    let base = patience.clamp(SHORTEST, LONGEST);
    // Without a source of randomness everybody comes back in the middle.
    let share = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
    let after = base + base.mul_f64(share);
    Duration::from_millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
}

/// As `Retry-After` has it: whole seconds, rounded up.
pub(super) fn whole_seconds(d: Duration) -> u64 {
    d.as_secs() + u64::from(d.subsec_nanos() > 0)
}
