//! Short notation for schedules, and for instants as local times of a zone.

use jiff::{Timestamp, tz::TimeZone};
use lock_cron::{DstPolicy, Schedule, UtcTime};
use std::time::{Duration, SystemTime};

/// The resolution of instants.
pub(crate) const TICK: Duration = Duration::from_millis(1);

pub(crate) fn instant(text: &str) -> UtcTime {
    SystemTime::from(text.parse::<Timestamp>().unwrap()).into()
}

/// Returns the local time and its offset: `03-29 03:00:00 +02:00`.
pub(crate) fn on_the_wall(time: UtcTime, zone: &str) -> String {
    let timestamp = Timestamp::try_from(SystemTime::from(time)).unwrap();
    timestamp.to_zoned(TimeZone::get(zone).unwrap()).strftime("%m-%d %H:%M:%S %:z").to_string()
}

/// Returns the runs of `text` in `zone` between two instants, excluding the second.
pub(crate) fn runs(text: &str, zone: &str, policy: DstPolicy, from: &str, until: &str) -> Vec<String> {
    let schedule = Schedule::cron(text).unwrap().in_tz(zone).unwrap().on_dst(policy);
    let (from, until) = (instant(from) - TICK, instant(until));
    schedule.after(from).take_while(|run| *run < until).map(|run| on_the_wall(run, zone)).collect()
}

/// Returns the first runs of `text` in UTC after the beginning of 2026, as dates and times.
pub(crate) fn first(text: &str, n: usize) -> Vec<String> {
    let schedule = Schedule::cron(text).unwrap();
    let after = instant("2026-01-01T00:00:00Z") - TICK;
    schedule.after(after).take(n).map(|run| run.to_string().replace(":00Z", "").replace('T', " ")).collect()
}
