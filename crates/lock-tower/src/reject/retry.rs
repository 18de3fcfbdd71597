//! When those who were refused should come back.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Once to twice the patience of the layer, evenly spread.
pub(super) fn after(patience: Duration) -> Duration {
    let base = patience.clamp(SHORTEST, LONGEST);
    // Without a source of randomness everybody comes back in the middle.
    let share = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
    base + base.mul_f64(share)
}

/// As `Retry-After` has it: whole seconds, rounded up.
pub(super) fn whole_seconds(d: Duration) -> u64 {
    d.as_secs() + u64::from(d.subsec_nanos() > 0)
}
