//! The policy for jobs at fixed times on the two days per year with a skipped or repeated hour.

/// The policy for runs at a time of day that does not exist or occurs twice because of a clock
/// change.
///
/// It applies to *fixed* times, with a star in neither the minute nor the hour (`30 2 * * *`,
/// `0,30 1-3 * * *`). A pattern with a star there (`*/15 * * * *`, `0 * * * *`, `*/15 2 * * *`,
/// `H/15 * * * *`) follows real time regardless of the policy: it runs in both passes of a repeated
/// hour, and does not run at skipped times.
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
    /// The policy for times that do not exist.
    pub gap: Gap,
    /// The policy for times that occur twice.
    pub fold: Fold,
}

/// The policy for runs at fixed times that are skipped, usually an hour in spring.
///
/// ```
/// assert_eq!(lock_cron::Gap::default(), lock_cron::Gap::RunOnce);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Gap {
    /// One run right after the gap, regardless of the number of skipped times. The default. Vixie
    /// cron runs a job once per skipped time, so `0,30 2 * * *` runs twice.
    #[default]
    RunOnce,
    /// No run that day.
    Skip,
    /// Each run is shifted by the length of the gap: 02:30 becomes 03:30.
    ShiftForward,
}

/// The policy for runs at fixed times that occur twice, usually an hour in autumn.
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
    /// One run in each pass.
    Both,
}

// Codes for fingerprints, which must stay the same when variants are added.
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
