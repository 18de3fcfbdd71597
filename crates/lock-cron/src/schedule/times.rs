//! The three kinds of schedules: a pattern, a period, or a single time; and the resolutions of their times.

use super::{
    calendar::{Calendar, Civil, DstPolicy},
    error::{Problem, ScheduleErrorKind, Token},
    pattern::Pattern,
    zone::Zone,
};
use jiff::{
    SignedDuration,
    fmt::friendly::{Designator, Spacing, SpanPrinter},
};
use lock_core::clock::UtcTime;
use std::{sync::Arc, time::Duration};

/// The maximum period, in milliseconds.
const CENTURY: i64 = 100 * 366 * 24 * 60 * 60 * 1000;

/// Formats periods as `1 hour 30 minutes`.
const IN_WORDS: SpanPrinter =
    SpanPrinter::new().designator(Designator::Verbose).spacing(Spacing::BetweenUnitsAndDesignators);

#[derive(Clone)]
pub(crate) enum Times {
    Pattern {
        pattern: Arc<Pattern>,
        civil: Arc<Civil>,
    },
    /// The period in milliseconds.
    Every(u64),
    At(UtcTime),
}

impl Times {
    /// Creates a pattern in which `H` is derived from the name of `job`.
    pub(crate) fn pattern(pattern: Arc<Pattern>, job: &str, text: Token<'_>) -> Result<Self, Problem> {
        let refused = |but: &str| Err(text.problem(ScheduleErrorKind::NeverRuns, "the pattern", but));
        match Civil::new(&pattern.numbers(job)) {
            Some(civil) if civil.matches_a_date() => Ok(Self::Pattern { pattern, civil: civil.into() }),
            Some(_) => {
                refused("never runs, because no date matches it: change the day, month, weekday or year")
            }
            None => refused("cannot be parsed, so it never runs"),
        }
    }

    pub(crate) fn every(millis: i128, token: Token<'_>) -> Result<Self, Problem> {
        let refused = |but| Err(token.problem(ScheduleErrorKind::InvalidPeriod, "the period", but));
        match i64::try_from(millis) {
            Ok(millis @ 1000..=CENTURY) => Ok(Self::Every(millis.unsigned_abs())),
            Ok(0) => refused("is zero: use a second or more"),
            Ok(..1000) => refused("is shorter than a second: use a second or more"),
            Ok(_) | Err(_) => refused("is longer than 100 years: use a shorter period"),
        }
    }

    pub(crate) fn for_job(&self, job: &str, text: Token<'_>) -> Result<Self, Problem> {
        match self {
            Self::Pattern { pattern, .. } if pattern.has_hash() => Self::pattern(pattern.clone(), job, text),
            other => Ok(other.clone()),
        }
    }

    pub(crate) fn next_after(&self, after: UtcTime, zone: &Zone, policy: DstPolicy) -> Option<UtcTime> {
        match self {
            Self::At(instant) => (after < *instant).then_some(*instant),
            Self::Every(period) => {
                let slot = after.as_millis() / period + 1;
                slot.checked_mul(*period).map(UtcTime::from_millis).filter(|next| after < *next)
            }
            Self::Pattern { pattern, civil } => {
                let calendar = Calendar { civil, zone, policy, interval: pattern.is_interval() };
                let next = calendar.next_after(second(after))?;
                Some(UtcTime::default() + Duration::from_secs(u64::try_from(next).ok()?))
            }
        }
    }

    /// Returns the zone, if it has an effect.
    pub(crate) fn zoned<'a>(&self, zone: &'a Zone) -> Option<&'a Zone> {
        matches!(self, Self::Pattern { .. }).then_some(zone)
    }

    /// Returns the pattern or the period in words; `None` for a single time.
    pub(crate) fn describe(&self) -> Option<String> {
        match self {
            Self::Pattern { civil, .. } => Some(civil.describe()),
            Self::Every(period) => {
                let words = IN_WORDS.duration_to_string(&SignedDuration::from_millis(period.cast_signed()));
                let unit = words.strip_prefix("1 ").filter(|unit| !unit.contains(' '));
                Some(format!("Every {}", unit.unwrap_or(&words)))
            }
            Self::At(_) => None,
        }
    }

    /// Returns the numeric pattern for the search.
    pub(crate) fn numbers(&self) -> &str {
        match self {
            Self::Pattern { civil, .. } => civil.numbers(),
            Self::Every(_) | Self::At(_) => "",
        }
    }
}

impl PartialEq for Times {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pattern { pattern, civil }, Self::Pattern { pattern: other, civil: searched }) => {
                civil == searched && pattern.is_interval() == other.is_interval()
            }
            (Self::Every(a), Self::Every(b)) => a == b,
            (Self::At(a), Self::At(b)) => a == b,
            _ => false,
        }
    }
}

/// Formats a period for `@every`, without fractions of a millisecond.
pub(crate) fn friendly(period: Duration) -> String {
    let whole = Duration::new(period.as_secs(), period.subsec_millis() * 1_000_000);
    match SignedDuration::try_from(whole) {
        Ok(whole) => format!("{whole:#}"),
        // Longer than jiff supports, and longer than any valid period.
        Err(_) => format!("{}s", i64::MAX),
    }
}

/// Rounds down to the millisecond: every node and the store identify a run by its scheduled time in milliseconds.
pub(crate) fn whole_millis(instant: impl Into<UtcTime>) -> UtcTime {
    UtcTime::from_millis(instant.into().as_millis())
}

/// Returns the instant in whole seconds since 1970, since patterns match seconds.
pub(crate) fn second(instant: UtcTime) -> i64 {
    (instant.as_millis() / 1000).cast_signed()
}
