//! Fingerprints of schedules, for comparing the text and the zone data of two nodes.

use super::{dst::DstPolicy, zone::Zone};
use crate::{
    hash::StableHash,
    time::{UtcTime, second},
};
use std::fmt;

/// The number of days of zone data in a fingerprint: somewhat more than a year.
const DAYS: i64 = 400;

/// A fingerprint of a schedule, which nodes can compare to check that they use the same scheduled
/// times.
///
/// The fingerprint is a hash that is stable across platforms, compilers and versions of this crate.
/// For nodes with different versions of the time zone database, [`zone`](Self::zone) differs if the
/// schedule's zone data differs within 400 days.
///
/// ```
/// use lock_cron::{Schedule, UtcTime};
///
/// let from = UtcTime::from_millis(1_774_695_600_000);
/// let (berlin, paris) = (Schedule::cron("0 2 * * *")?.in_tz("Europe/Berlin")?, "CRON_TZ=Europe/Paris 0 2 * * *".parse::<Schedule>()?);
/// assert_eq!(berlin.fingerprint(from), berlin.clone().fingerprint(from));
/// assert_ne!(berlin.fingerprint(from).schedule(), paris.fingerprint(from).schedule());
/// assert_eq!(berlin.fingerprint(from).zone(), paris.fingerprint(from).zone()); // the same offsets, for now
/// # Ok::<(), lock_cron::ScheduleError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    schedule: u64,
    zone: u64,
}

impl Fingerprint {
    pub(crate) fn of(what: &[String], policy: DstPolicy, zone: Option<&Zone>, from: UtcTime) -> Self {
        let words = what.iter().fold(StableHash::new(), |hash, words| hash.text(words));
        let schedule = words.number(policy.gap.code()).number(policy.fold.code()).finish();
        let zone = zone.map_or(0, |zone| offsets(zone, second(from)));
        Self { schedule, zone }
    }

    /// Returns the hash of the text, the zone name and the [`DstPolicy`]. It does not depend on the
    /// time of the fingerprint.
    ///
    /// ```
    /// use lock_cron::{Schedule, UtcTime};
    ///
    /// let daily = Schedule::cron("@daily")?;
    /// let schedule = |millis| daily.fingerprint(UtcTime::from_millis(millis)).schedule();
    /// assert_eq!(schedule(0), schedule(1_000_000_000_000));
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub const fn schedule(&self) -> u64 {
        self.schedule
    }

    /// Returns the hash of the zone's offset at the time of the fingerprint and its changes in the
    /// following 400 days. Compare only hashes for the same time. Zero if the schedule needs no
    /// zone.
    ///
    /// ```
    /// use lock_cron::{Schedule, UtcTime};
    /// use std::time::Duration;
    ///
    /// let every = Schedule::every(Duration::from_secs(300))?;
    /// assert_eq!(every.fingerprint(UtcTime::now()).zone(), 0);
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub const fn zone(&self) -> u64 {
        self.zone
    }
}

/// Formats the fingerprint as sixteen hexadecimal digits for the schedule and sixteen for its zone.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.schedule, self.zone)
    }
}

fn offsets(zone: &Zone, from: i64) -> u64 {
    let until = from.saturating_add(DAYS * 24 * 60 * 60);
    let mut segment = zone.segment_at(from);
    let mut hash = StableHash::new().number(segment.offset);
    while let Some(next) = zone.after(&segment).filter(|next| next.start <= until) {
        hash = hash.number(next.start).number(next.offset);
        segment = next;
    }
    hash.finish()
}
