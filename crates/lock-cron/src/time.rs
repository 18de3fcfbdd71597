//! The time resolutions of schedules: a run's scheduled time is stored in milliseconds, and patterns match seconds.

pub(crate) use lock_core::clock::UtcTime;

/// Rounds down to the millisecond: every node and the store identify a run by its scheduled time in milliseconds.
pub(crate) fn whole_millis(instant: impl Into<UtcTime>) -> UtcTime {
    UtcTime::from_millis(instant.into().as_millis())
}

/// Returns the instant in whole seconds since 1970.
pub(crate) fn second(instant: UtcTime) -> i64 {
    (instant.as_millis() / 1000).cast_signed()
}
