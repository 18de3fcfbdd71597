//! The delay suggested for retries, and the marker on responses that suggest one.

use http::Response;
use std::time::Duration;

const MIN_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Returns one to two times the layer's wait, evenly distributed, in whole milliseconds, so that
/// `Retry-After` and `retry_after_ms` agree.
pub(super) fn after(wait: Duration) -> Duration {
    let base = wait.clamp(MIN_DELAY, MAX_DELAY);
    // Without a random source, uses the middle of the range.
    let share = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
    let after = base + base.mul_f64(share);
    Duration::from_millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
}

/// Marks a response that suggests a retry, so that an outer idempotency layer does not store it. A
/// response with its own `Execution` is unchanged.
pub(crate) fn not_started<B>(response: Response<B>) -> Response<B> {
    #[cfg(feature = "idempotency")]
    let response = {
        use crate::idempotency::Execution;

        let mut response = response;
        if response.extensions().get::<Execution>().is_none() {
            response.extensions_mut().insert(Execution::NotStarted);
        }
        response
    };
    response
}

/// Returns the value of `Retry-After`: whole seconds, rounded up.
pub(super) fn whole_seconds(d: Duration) -> u64 {
    d.as_secs() + u64::from(d.subsec_nanos() > 0)
}
