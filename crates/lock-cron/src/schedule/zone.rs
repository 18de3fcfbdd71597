//! The offsets of a time zone, as segments of time with a constant offset.

use super::error::{Problem, ScheduleErrorKind, Token};
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneTransition},
};

/// A local time, in seconds: the reading of a local clock, interpreted as UTC.
pub(crate) type Wall = i64;

/// A named time zone. Its data comes from the system, when the zone is created, or from the binary.
#[derive(Debug, Clone)]
pub(crate) struct Zone(pub(super) TimeZone);

/// A segment of time with one offset: seconds since 1970 in UTC, from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) offset: i64,
}

impl Segment {
    pub(crate) fn wall(&self, instant: i64) -> Wall {
        instant.saturating_add(self.offset)
    }

    pub(crate) fn instant(&self, wall: Wall) -> i64 {
        wall.saturating_sub(self.offset)
    }

    /// Returns `true` if the local clock shows `wall` in this segment.
    pub(crate) fn shows(&self, wall: Wall) -> bool {
        (self.start..self.end).contains(&self.instant(wall))
    }
}

impl Zone {
    pub(crate) const UTC: Self = Self(TimeZone::UTC);

    pub(crate) fn named(name: Token<'_>) -> Result<Self, Problem> {
        TimeZone::get(name.text).map(Self).map_err(|source| {
            let but = match similar(name.text) {
                Some(similar) => format!("is unknown: use `{similar}`"),
                None => {
                    let why = if is_offset(name.text) {
                        "is an offset, which does not follow clock changes"
                    } else if is_abbreviation(name.text) {
                        "is unknown, and abbreviations do not follow clock changes"
                    } else {
                        "is unknown"
                    };
                    format!("{why}: use a name from the IANA database, such as `Europe/Berlin`, or `UTC`")
                }
            };
            name.problem(ScheduleErrorKind::UnknownZone, "the time zone", but).because(source)
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    pub(crate) fn segment_at(&self, instant: i64) -> Segment {
        let (start, at, end) = (self.change_until(instant), timestamp(instant), self.change_after(instant));
        let offset = self.0.to_offset(at);
        Segment {
            start: start.map_or(i64::MIN, |change| change.timestamp().as_second()),
            end: end.map_or(i64::MAX, |change| change.timestamp().as_second()),
            offset: offset.seconds().into(),
        }
    }

    /// Returns the segment that begins where this one ends.
    pub(crate) fn after(&self, segment: &Segment) -> Option<Segment> {
        (segment.end < i64::MAX).then(|| self.segment_at(segment.end))
    }

    /// Returns the segment that ends where this one begins.
    pub(crate) fn before(&self, segment: &Segment) -> Option<Segment> {
        (segment.start > i64::MIN).then(|| self.segment_at(segment.start - 1))
    }

    /// Returns the last offset change at or before `instant`. Transitions that change only the abbreviation or the
    /// daylight saving flag are skipped.
    fn change_until(&self, instant: i64) -> Option<TimeZoneTransition<'_>> {
        let mut earlier = self.0.preceding(timestamp(instant.saturating_add(1))).peekable();
        while let Some(change) = earlier.next() {
            let before = earlier.peek().map_or_else(
                || self.0.to_offset(timestamp(change.timestamp().as_second() - 1)),
                TimeZoneTransition::offset,
            );
            if before != change.offset() {
                return Some(change);
            }
        }
        None
    }

    /// Returns the first change of the offset after `instant`.
    fn change_after(&self, instant: i64) -> Option<TimeZoneTransition<'_>> {
        let at = timestamp(instant);
        let offset = self.0.to_offset(at);
        self.0.following(at).find(|change| change.offset() != offset)
    }
}

/// Converts a second to the nearest time that jiff supports, whose range ends in the year 9999.
fn timestamp(second: i64) -> Timestamp {
    let known = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
    Timestamp::from_second(second.clamp(*known.start(), *known.end())).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the zone that a name such as `Berlin` or `berlin` probably means.
fn similar(name: &str) -> Option<String> {
    let city = |zone: &str| zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(name));
    jiff::tz::db().available().map(|zone| zone.to_string()).filter(|zone| city(zone)).min()
}

/// Returns `true` for a name such as `+02:00` or `UTC+2`.
fn is_offset(name: &str) -> bool {
    let signed = ["UTC", "GMT"].into_iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    let digits = signed.strip_prefix(['+', '-']).unwrap_or("");
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || c == ':')
}

/// Returns `true` for a name such as `CEST` or `PDT`.
fn is_abbreviation(name: &str) -> bool {
    (2..=5).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other_and_differ_in_their_offsets() {
        let mut seen = 0;
        for name in jiff::tz::db().available() {
            let zone = Zone(TimeZone::get(name.as_str()).unwrap());
            let mut segment = zone.segment_at(0);
            while let Some(next) = zone.after(&segment).filter(|next| next.start < 2_000_000_000) {
                assert_eq!((next.start, zone.before(&next)), (segment.end, Some(segment)), "{name}");
                assert_ne!(next.offset, segment.offset, "{name} at {}", next.start);
                segment = next;
                seen += 1;
            }
        }
        assert!(seen > 10_000, "{seen} changes of offsets since 1970");
    }
}
