//! What a job at a fixed time does on the two days of a year that have no such hour, or have it twice.

/// When the clocks change: what becomes of runs at a time of day that does not exist, or exists twice.
///
/// It is about *fixed* times: neither minute nor hour has a star (`30 2 * * *`, `0,30 1-3 * * *`). A pattern with a
/// star (`*/15 * * * *`, `0 * * * *`, `*/15 2 * * *`, `H/15 * * * *`) follows real time whatever the policy: it runs in both
/// passes of a repeated hour, and not at times that the clocks skip.
///
/// ```
/// use lock_cron::{DstPolicy, Fold, Gap, Schedule};
///
/// let daily = Schedule::cron("30 2 * * *")?.in_tz("Europe/Berlin")?;
/// let shifted = daily.clone().on_dst(DstPolicy { gap: Gap::ShiftForward, fold: Fold::First });
///
/// // On 29 March 2026 the clocks went from 02:00 to 03:00, at 01:00 UTC.
/// let noon_before = lock_cron::UtcTime::from_millis(1_774_695_600_000);
/// assert_eq!(daily.next_after(noon_before).unwrap().to_string(), "2026-03-29T01:00:00Z"); // 03:00
/// assert_eq!(shifted.next_after(noon_before).unwrap().to_string(), "2026-03-29T01:30:00Z"); // 03:30
/// # Ok::<(), lock_cron::ScheduleError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DstPolicy {
    /// The time does not exist.
    pub gap: Gap,
    /// The time exists twice.
    pub fold: Fold,
}

/// What becomes of runs at fixed times that the clocks skip, an hour in spring as a rule.
///
/// ```
/// assert_eq!(lock_cron::Gap::default(), lock_cron::Gap::RunOnce);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Gap {
    /// One run right after the gap, however many times fell into it. The default. Vixie cron runs a job once for each time that fell
    /// into the gap: `0,30 2 * * *` twice.
    #[default]
    RunOnce,
    /// No run that day.
    Skip,
    /// Each run, as much later as the clocks skipped: 02:30 becomes 03:30.
    ShiftForward,
}

/// What becomes of runs at fixed times that the clocks show twice, an hour in autumn as a rule.
///
/// ```
/// assert_eq!(lock_cron::Fold::default(), lock_cron::Fold::First);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Fold {
    /// One run, in the first pass. The default.
    #[default]
    First,
    /// One run, in the second pass.
    Last,
    /// A run in each pass.
    Both,
}

// For fingerprints, which new variants must not move.
impl Gap {
    pub(crate) const fn code(self) -> i64 {
        match self {
            Self::RunOnce => 0,
            Self::Skip => 1,
            Self::ShiftForward => 2,
        }
    }
}

impl Fold {
    pub(crate) const fn code(self) -> i64 {
        match self {
            Self::First => 0,
            Self::Last => 1,
            Self::Both => 2,
        }
    }
}
