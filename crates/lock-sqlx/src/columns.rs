//! The values of columns.

use crate::retention::RETENTION;
use lock_core::{
    FencingToken, Retention,
    backend::{Applied, BackendError, BackendErrorKind},
    clock::UtcTime,
};
use std::time::Duration;

/// Longer times and greater tokens are shortened to these, so that no sum of the server overflows.
const MAX_MILLIS: i64 = 1_000_000_000_000_000;
const MAX_TOKEN: i64 = 1 << 62;

/// Returns a time as a column has it.
pub(crate) fn micros(time: i64) -> UtcTime {
    UtcTime::from_micros(u64::try_from(time).unwrap_or(0))
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(MAX_MILLIS).min(MAX_MILLIS)
}

pub(crate) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn token(number: i64) -> FencingToken {
    FencingToken::new(u64::try_from(number).unwrap_or(0))
}

pub(crate) fn floor(token: FencingToken) -> i64 {
    token.as_i64().min(MAX_TOKEN)
}

/// Returns the milliseconds for which a counter is kept; `None` for ever.
pub(crate) fn retention(retention: Retention) -> Option<i64> {
    retention.unless(Some(RETENTION)).map(|keep| millis(keep).max(1))
}

pub(crate) fn misunderstood() -> BackendError {
    let message = "the database answered with other columns than expected";
    BackendError::new(BackendErrorKind::Protocol, Applied::Unknown, message)
}
