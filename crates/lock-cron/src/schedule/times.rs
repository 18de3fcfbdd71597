//! A schedule: a pattern, a period or a single time, with a time zone and a policy for clock changes; its runs, and its
//! fingerprint.

use super::{
    calendar::{Calendar, Civil, DstPolicy},
    error::{Problem, ScheduleError, ScheduleErrorKind, Token},
    pattern::{Body, MAX_TEXT_BYTES, Pattern, Text},
    zone::Zone,
};
use crate::hash::StableHash;
use jiff::{
    SignedDuration,
    fmt::friendly::{Designator, Spacing, SpanPrinter},
};
use lock_core::clock::UtcTime;
use std::{fmt, iter::FusedIterator, str::FromStr, sync::Arc, time::Duration};

/// The maximum length of a description, in characters. The schedule's text is easier to read than a longer one.
const MAX_WORDS: usize = 60;

/// The workdays as croner lists them.
const WORKDAYS: &str = "Monday, Tuesday, Wednesday, Thursday, and Friday";

/// The number of days of zone data in a fingerprint: somewhat more than a year.
const DAYS: i64 = 400;

/// The maximum period, in milliseconds.
const CENTURY: i64 = 100 * 366 * 24 * 60 * 60 * 1000;

/// Formats periods as `1 hour 30 minutes`.
const IN_WORDS: SpanPrinter =
    SpanPrinter::new().designator(Designator::Verbose).spacing(Spacing::BetweenUnitsAndDesignators);

/// The times at which a job runs, which are the same on every node.
///
/// ```
/// use lock_cron::{Schedule, UtcTime};
///
/// let nightly = Schedule::cron("0 2 * * *")?.in_tz("Europe/Berlin")?;
/// let new_year = UtcTime::from_millis(1_767_222_000_000);
/// assert_eq!(nightly.next_after(new_year).unwrap().to_string(), "2026-01-01T01:00:00Z");
///
/// for run in nightly.next_runs(3) {
///     println!("{run}");
/// }
/// # Ok::<(), lock_cron::ScheduleError>(())
/// ```
///
/// # Patterns
/// A pattern has five fields, six with leading seconds, or seven with trailing years:
///
/// ```text
/// [second 0-59] minute 0-59 hour 0-23 day-of-month 1-31 month 1-12 day-of-week 0-7 [year 1970-5000]
/// ```
///
/// | field | meaning |
/// | --- | --- |
/// | `*`, `*/15` | every value, every fifteenth starting with the first |
/// | `5`, `1-5`, `0-30/10`, `1,3,7-9` | a value, a range, every tenth of a range, a list of these |
/// | `5/15` | every fifteenth from 5 on: `5-59/15` |
/// | `JAN`-`DEC`, `SUN`-`SAT` | names; in numbers Sunday is 0 or 7, Monday is 1 |
/// | `?` | the same as `*`, for days |
/// | `L`, `LW`, `15W` | days of the month: the last, the last workday, the workday (Monday to Friday) nearest to the 15th in its month |
/// | `FRI#2`, `FRIL` | days of the week: the second, the last Friday of the month |
/// | `H`, `H(0-29)`, `H/15` | a value that depends on the job's name, within a range, every fifteenth from it on; see [`for_job`](Self::for_job) |
///
/// If both the day of the month and the day of the week are given (neither is `*`), a day matches
/// if one of them matches. With a `+` before the days of the week, both must match:
/// `0 9 1-7 * +MON`. A step does not count as a star: `0 0 */10 * MON` runs on every tenth day and
/// on every Monday. Vixie cron and cronie treat a field that begins with a star as a star, and run
/// such a job only on Mondays that are also a tenth day.
///
/// The number `2` is Tuesday, as in cron; in Quartz it is Monday. A step after a day of the week ends at Saturday:
/// `5/1` is Friday and Saturday.
///
/// Instead of fields, the text can be `@hourly`, `@daily` or `@midnight`, `@weekly`, `@monthly`, `@yearly` or
/// `@annually`; `@every 1h30m`, see [`every`](Self::every); or `@at 2030-01-31T09:00:00Z`, see [`at`](Self::at).
///
/// # Zones
/// Without a zone, a schedule is in UTC. The machine's zone is never used, because it may differ
/// between nodes. Set the zone with [`in_tz`](Self::in_tz), or in the text:
/// `CRON_TZ=Europe/Berlin 0 2 * * *`. The zone data is read from the system when the schedule is
/// created, or from the binary (feature `bundled-zones`) if the system has none.
///
/// # Clock changes
/// A pattern with a star in minute or hour follows real time: `*/15 * * * *` runs every 15 minutes,
/// even through a repeated hour. A job at fixed times, such as `30 2 * * *` or `0,30 1-3 * * *`,
/// runs once, in the first pass, if its time occurs twice. If its times do not exist, it runs once
/// right after the gap. [`on_dst`](Self::on_dst) sets another policy.
///
/// Only a star makes a pattern follow real time. `0 0-23 * * *` and `0 0 0/1 * * ?` contain no
/// star, so they are fixed times, with 24 runs on a 25-hour day and one hour without a run. Write
/// `0 * * * *` to run every hour. A step after `H`, as in `H/15`, counts as a star; `H` and ranges
/// of `H`, as in `H(0-29)/15`, count as fixed.
#[derive(Clone)]
pub struct Schedule {
    text: Arc<str>,
    /// Set if the text contains a zone. Setting a different one is then an error.
    zone_in_text: bool,
    zone: Zone,
    policy: DstPolicy,
    times: Times,
}

impl Schedule {
    /// Parses a schedule, which is a pattern or a word after `@`, with an optional zone before it.
    ///
    /// # Errors
    /// Returns a [`ScheduleError`] that points at the problem if the text is invalid or matches no
    /// date.
    ///
    /// ```
    /// use lock_cron::Schedule;
    ///
    /// for text in ["*/5 * * * *", "0 0 9 * * MON#1", "0 0 12 L * ? 2030", "@daily", "@every 90s", "TZ=Asia/Tokyo 0 9 * * 1-5"] {
    ///     Schedule::cron(text)?;
    /// }
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    pub fn cron(text: &str) -> Result<Self, ScheduleError> {
        if text.len() > MAX_TEXT_BYTES {
            let shown: String = text.chars().take(40).collect();
            let but = format!("is longer than {MAX_TEXT_BYTES} bytes: shorten it, or use several jobs");
            let problem = Problem::new(ScheduleErrorKind::TooLong, 0..shown.len(), "the text", but);
            return Err(problem.in_text(&shown));
        }
        Self::parse(text).map_err(|problem| problem.in_text(text))
    }

    /// Returns an error if the schedule has no run after this time.
    pub(crate) fn check_upcoming(&self, now: UtcTime) -> Result<(), ScheduleError> {
        if self.next_after(now).is_some() {
            return Ok(());
        }
        let text = self.to_string();
        let but = "has no further runs: use one that runs in the future";
        let what = format!("the schedule `{text}`");
        Err(Problem::new(ScheduleErrorKind::Over, 0..text.len(), what, but).in_text(&text))
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let Text { zone, body, rest } = Text::parse(text)?;
        let times = match body {
            Body::Pattern(pattern) => Times::pattern(pattern.into(), "", rest)?,
            Body::Every(token, period) => Times::every(period.as_millis(), token)?,
            Body::At(instant) => {
                Times::At(UtcTime::from_millis(u64::try_from(instant.as_millisecond()).unwrap_or(0)))
            }
        };
        Ok(Self {
            text: rest.text.into(),
            zone_in_text: zone.is_some(),
            zone: zone.map_or(Ok(Zone::UTC), Zone::named)?,
            policy: DstPolicy::default(),
            times,
        })
    }

    /// Creates a schedule that runs every `period` in real time, at multiples of `period` since
    /// 1970-01-01T00:00:00Z. All nodes therefore have the same scheduled times regardless of when
    /// they started. Fractions of a millisecond are dropped.
    ///
    /// Zones have no effect, so every 24 hours does not mean the same time of day.
    ///
    /// # Errors
    /// Returns [`InvalidPeriod`](ScheduleErrorKind::InvalidPeriod) if the period is shorter than a
    /// second or longer than 100 years.
    ///
    /// ```
    /// use lock_cron::{Schedule, UtcTime};
    /// use std::time::Duration;
    ///
    /// let slots = Schedule::every(Duration::from_secs(5 * 60))?;
    /// let next = slots.next_after(UtcTime::from_millis(1_774_695_600_001));
    /// assert_eq!(next, Some(UtcTime::from_millis(1_774_695_900_000)));
    /// assert!(Schedule::every(Duration::ZERO).is_err());
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    pub fn every(period: Duration) -> Result<Self, ScheduleError> {
        let text = format!("@every {}", friendly(period));
        Self::cron(&text)
    }

    /// Creates a schedule that runs once, at `instant`. Fractions of a millisecond are dropped.
    ///
    /// ```
    /// use lock_cron::{Schedule, UtcTime};
    ///
    /// let launch = UtcTime::from_millis(1_900_000_000_000);
    /// let once = Schedule::at(launch);
    /// assert_eq!(once.next_after(UtcTime::from_millis(0)), Some(launch));
    /// assert_eq!(once.next_after(launch), None);
    /// ```
    #[must_use]
    pub fn at(instant: impl Into<UtcTime>) -> Self {
        let instant = whole_millis(instant);
        Self {
            text: format!("@at {instant}").into(),
            zone_in_text: false,
            zone: Zone::UTC,
            policy: DstPolicy::default(),
            times: Times::At(instant),
        }
    }

    /// Returns the same pattern in another time zone, named as in the IANA database. The default is
    /// `UTC`. Periods and single times are not affected.
    ///
    /// # Errors
    /// Returns [`UnknownZone`](ScheduleErrorKind::UnknownZone) if there is no such zone, or
    /// [`ConflictingZone`](ScheduleErrorKind::ConflictingZone) if the text names another zone.
    ///
    /// ```
    /// use lock_cron::Schedule;
    ///
    /// let lunch = Schedule::cron("0 12 * * *")?.in_tz("America/Santiago")?;
    /// assert_eq!(lunch.tz(), "America/Santiago");
    /// assert!(Schedule::cron("0 12 * * *")?.in_tz("Santiago").unwrap_err().to_string().contains("use `America/Santiago`"));
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    pub fn in_tz(mut self, name: &str) -> Result<Self, ScheduleError> {
        let token = Token { text: name, at: 0 };
        let zone = Zone::named(token).map_err(|problem| problem.in_text(name))?;
        if self.zone_in_text && zone.name() != self.zone.name() {
            let text = format!("CRON_TZ={} {}", self.zone.name(), self.text);
            let at = "CRON_TZ=".len()..text.len() - self.text.len() - 1;
            let but = format!("conflicts with `{}`: name only one zone", zone.name());
            return Err(Problem::new(ScheduleErrorKind::ConflictingZone, at, "the zone", but).in_text(&text));
        }
        self.zone = zone;
        Ok(self)
    }

    /// Sets the policy for runs at fixed times during clock changes.
    ///
    /// ```
    /// use lock_cron::{DstPolicy, Fold, Gap, Schedule};
    ///
    /// let policy = DstPolicy { gap: Gap::Skip, fold: Fold::Last };
    /// let schedule = Schedule::cron("30 2 * * *")?.in_tz("Europe/Berlin")?.on_dst(policy);
    /// # let _ = schedule;
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn on_dst(mut self, policy: DstPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Returns the same schedule with each `H` derived from a job name. Jobs with different names
    /// are spread over the hour or the day, and each keeps its time. Without this call, `H` is
    /// derived from an empty name. The scheduler calls this method when a job is registered.
    ///
    /// # Errors
    /// Returns [`NeverRuns`](ScheduleErrorKind::NeverRuns) if `H` makes the date impossible, as in `0 0 30 H *`.
    ///
    /// ```
    /// use lock_cron::{Schedule, UtcTime};
    ///
    /// let nightly = Schedule::cron("H H(1-4) * * *")?;
    /// let first = |job| nightly.for_job(job).map(|schedule| schedule.next_after(UtcTime::from_millis(0)));
    /// assert_eq!(first("invoices")?, first("invoices")?);
    /// assert_ne!(first("invoices")?, first("reports")?);
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    pub fn for_job(&self, name: &str) -> Result<Self, ScheduleError> {
        let token = Token { text: &self.text, at: 0 };
        let times = self.times.for_job(name, token).map_err(|problem| problem.in_text(&self.text))?;
        Ok(Self { times, ..self.clone() })
    }

    /// Returns the first run strictly after `instant`, or `None` if there is none.
    ///
    /// ```
    /// use lock_cron::{Schedule, UtcTime};
    /// use std::time::SystemTime;
    ///
    /// let hourly = Schedule::cron("@hourly")?;
    /// let run = hourly.next_after(SystemTime::now()).unwrap();
    /// assert_eq!(hourly.next_after(run).unwrap().as_millis(), run.as_millis() + 3_600_000);
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn next_after(&self, instant: impl Into<UtcTime>) -> Option<UtcTime> {
        self.times.next_after(instant.into(), &self.zone, self.policy)
    }

    /// Returns the runs after `instant`, in order.
    ///
    /// ```
    /// use lock_cron::{Schedule, UtcTime};
    ///
    /// let (since, now) = (UtcTime::from_millis(0), UtcTime::from_millis(10_800_000));
    /// let hourly = Schedule::cron("@hourly")?;
    /// let missed: Vec<_> = hourly.after(since).take_while(|run| *run <= now).collect();
    /// assert_eq!(missed.len(), 3);
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    pub fn after(&self, instant: impl Into<UtcTime>) -> Runs<'_> {
        Runs { schedule: self, after: Some(instant.into()) }
    }

    /// Returns the next `n` runs after now by the system clock, or fewer if the schedule ends.
    ///
    /// ```
    /// assert_eq!(lock_cron::Schedule::cron("@daily")?.next_runs(7).len(), 7);
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn next_runs(&self, n: usize) -> Vec<UtcTime> {
        self.after(UtcTime::now()).take(n).collect()
    }

    /// Returns a description of the schedule in English, or the schedule's text if the description
    /// would exceed 60 characters without the zone.
    ///
    /// ```
    /// let nightly = lock_cron::Schedule::cron("0 2 * * MON-FRI")?.in_tz("Europe/Berlin")?;
    /// assert_eq!(nightly.describe(), "At 02:00, on Monday to Friday, Europe/Berlin");
    /// assert_eq!(lock_cron::Schedule::cron("@every 90s")?.describe(), "Every 1 minute 30 seconds");
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        let zone = self.times.zoned(&self.zone).map_or("UTC", Zone::name);
        let words = match self.times.describe() {
            Some(words) => {
                let words = words.trim_end_matches('.').replacen("At every", "Every", 1);
                words.replace(WORKDAYS, "Monday to Friday")
            }
            None => self.text.replacen("@at", "Once, at", 1),
        };
        let words = if words.chars().count() > MAX_WORDS { self.text.to_string() } else { words };
        if zone == "UTC" { words } else { format!("{words}, {zone}") }
    }

    /// Returns the name of the time zone.
    ///
    /// ```
    /// assert_eq!(lock_cron::Schedule::cron("@daily")?.tz(), "UTC");
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn tz(&self) -> &str {
        self.zone.name()
    }

    /// Returns the policy for runs at fixed times during clock changes.
    ///
    /// ```
    /// let schedule = lock_cron::Schedule::cron("@daily")?;
    /// assert_eq!(schedule.dst_policy(), lock_cron::DstPolicy::default());
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn dst_policy(&self) -> DstPolicy {
        self.policy
    }

    /// Returns a fingerprint, which nodes use to compare schedules. It covers the zone data for the
    /// 400 days after `from`. All nodes must use the same `from`.
    ///
    /// ```
    /// use lock_cron::{Schedule, UtcTime};
    ///
    /// let from = UtcTime::from_millis(1_774_695_600_000);
    /// let (a, b) = (Schedule::cron("0 2 * * *")?, Schedule::cron("0 3 * * *")?);
    /// assert_ne!(a.fingerprint(from), b.fingerprint(from));
    /// # Ok::<(), lock_cron::ScheduleError>(())
    /// ```
    #[must_use]
    pub fn fingerprint(&self, from: impl Into<UtcTime>) -> Fingerprint {
        let what = [self.to_string(), self.times.numbers().to_owned()];
        Fingerprint::of(&what, self.policy, self.times.zoned(&self.zone), from.into())
    }

    /// Returns the hash of the text, the zone's name and the policy alone, which identifies a schedule in the run
    /// ledger.
    pub(crate) fn identity(&self) -> u64 {
        let what = [self.to_string(), self.times.numbers().to_owned()];
        Fingerprint::of(&what, self.policy, None, UtcTime::default()).schedule()
    }
}

/// Formats the schedule as text for [`Schedule::cron`], including the zone but not the [`DstPolicy`].
///
/// ```
/// use lock_cron::Schedule;
///
/// let daily = Schedule::cron("@daily")?.in_tz("Asia/Tokyo")?;
/// assert_eq!(daily.to_string(), "CRON_TZ=Asia/Tokyo @daily");
/// assert_eq!(daily.to_string().parse::<Schedule>()?, daily);
/// # Ok::<(), lock_cron::ScheduleError>(())
/// ```
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.times.zoned(&self.zone).is_some_and(|zone| zone.name() != "UTC") {
            write!(f, "CRON_TZ={} ", self.zone.name())?;
        }
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schedule").field(&self.to_string()).field(&self.policy).finish()
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        Self::cron(text)
    }
}

/// Compares the times, the policy and the name of the zone. `@daily` and `0 0 * * *` are equal, but the zones `UTC` and
/// `Etc/UTC` are not.
impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        let zone = |this: &Self| this.times.zoned(&this.zone).map(|zone| zone.name().to_owned());
        self.times == other.times && self.policy == other.policy && zone(self) == zone(other)
    }
}

impl Eq for Schedule {}

/// An iterator over a schedule's runs after a point in time, strictly increasing. Returned by
/// [`Schedule::after`].
///
/// The iterator ends after the schedule's last run. A pattern with years ends after its last year,
/// and most other schedules never end.
///
/// ```
/// use lock_cron::{Schedule, UtcTime};
///
/// let leap = Schedule::cron("0 0 29 2 *")?;
/// let years: Vec<_> = leap.after(UtcTime::from_millis(0)).take(2).map(|run| run.to_string()).collect();
/// assert_eq!(years, ["1972-02-29T00:00:00Z", "1976-02-29T00:00:00Z"]);
/// # Ok::<(), lock_cron::ScheduleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Runs<'a> {
    schedule: &'a Schedule,
    after: Option<UtcTime>,
}

impl Iterator for Runs<'_> {
    type Item = UtcTime;

    fn next(&mut self) -> Option<UtcTime> {
        self.after = self.schedule.next_after(self.after?);
        self.after
    }
}

impl FusedIterator for Runs<'_> {}

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
    fn of(what: &[String], policy: DstPolicy, zone: Option<&Zone>, from: UtcTime) -> Self {
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

/// The three kinds of schedules.
#[derive(Clone)]
enum Times {
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
    fn pattern(pattern: Arc<Pattern>, job: &str, text: Token<'_>) -> Result<Self, Problem> {
        let refused = |but: &str| Err(text.problem(ScheduleErrorKind::NeverRuns, "the pattern", but));
        match Civil::new(&pattern.numbers(job)) {
            Some(civil) if civil.matches_a_date() => Ok(Self::Pattern { pattern, civil: civil.into() }),
            Some(_) => {
                refused("never runs, because no date matches it: change the day, month, weekday or year")
            }
            None => refused("cannot be parsed, so it never runs"),
        }
    }

    fn every(millis: i128, token: Token<'_>) -> Result<Self, Problem> {
        let refused = |but| Err(token.problem(ScheduleErrorKind::InvalidPeriod, "the period", but));
        match i64::try_from(millis) {
            Ok(millis @ 1000..=CENTURY) => Ok(Self::Every(millis.unsigned_abs())),
            Ok(0) => refused("is zero: use a second or more"),
            Ok(..1000) => refused("is shorter than a second: use a second or more"),
            Ok(_) | Err(_) => refused("is longer than 100 years: use a shorter period"),
        }
    }

    fn for_job(&self, job: &str, text: Token<'_>) -> Result<Self, Problem> {
        match self {
            Self::Pattern { pattern, .. } if pattern.has_hash() => Self::pattern(pattern.clone(), job, text),
            other => Ok(other.clone()),
        }
    }

    fn next_after(&self, after: UtcTime, zone: &Zone, policy: DstPolicy) -> Option<UtcTime> {
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
    fn zoned<'a>(&self, zone: &'a Zone) -> Option<&'a Zone> {
        matches!(self, Self::Pattern { .. }).then_some(zone)
    }

    /// Returns the pattern or the period in words; `None` for a single time.
    fn describe(&self) -> Option<String> {
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
    fn numbers(&self) -> &str {
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
fn second(instant: UtcTime) -> i64 {
    (instant.as_millis() / 1000).cast_signed()
}
