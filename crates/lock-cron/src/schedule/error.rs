//! Schedule errors, which contain the problem, its position in the text, and a correction; and the places to which they
//! point: the fields of a pattern, and parts of the text.

use std::{error::Error, fmt, ops::Range, sync::Arc};

/// The error for an invalid schedule. Branch on its [`kind`](ScheduleError::kind).
///
/// `{error}` is one clause that quotes the text. `{error:#}` adds the cause, and the text with a
/// marker under the position:
///
/// ```
/// use lock_cron::{Schedule, ScheduleErrorKind, schedule::Field};
///
/// let error = Schedule::cron("0 25 * * MON-FRI").unwrap_err();
/// assert_eq!(error.kind(), ScheduleErrorKind::InvalidField);
/// assert_eq!(error.field(), Some(Field::Hour));
/// assert_eq!(error.to_string(), "the hour `25` in `0 25 * * MON-FRI` is out of range: use 0-23");
/// assert!(format!("{error:#}").ends_with("\n  0 25 * * MON-FRI\n    ^^ hour"));
/// ```
// Not derived with `thiserror`, because the message quotes part of the schedule's text, and `{:#}` marks that part.
#[derive(Clone)]
pub struct ScheduleError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    problem: Problem,
    text: String,
}

/// The kind of a [`ScheduleError`].
///
/// ```
/// use lock_cron::{Schedule, ScheduleErrorKind};
///
/// let never = Schedule::cron("0 0 31 2 *").unwrap_err();
/// assert_eq!(never.kind(), ScheduleErrorKind::NeverRuns);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScheduleErrorKind {
    /// There is no pattern.
    Empty,
    /// The text is longer than [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES).
    TooLong,
    /// There are fewer than five or more than seven fields.
    FieldCount,
    /// A field is malformed or contains a value out of range.
    InvalidField,
    /// Every field is valid, but no day of any year matches all of them, such as 31 February.
    NeverRuns,
    /// The schedule has runs, but all of them are in the past.
    Over,
    /// The word after `@` is unknown.
    UnknownMacro,
    /// The time zone is unknown.
    UnknownZone,
    /// The pattern names a zone, and a different one was requested.
    ConflictingZone,
    /// The period is malformed, shorter than a second, or too long.
    InvalidPeriod,
    /// The time after `@at` is malformed.
    InvalidInstant,
}

/// A problem and the range of its bytes in a text. The code that finds it need not have the whole text.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    kind: ScheduleErrorKind,
    field: Option<Field>,
    at: Range<usize>,
    /// The clause before and after the quoted text.
    what: String,
    but: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Problem {
    /// Creates a problem. Its clause reads "`what` in `text` `but`", without "in `text`" if the problem is the whole
    /// text.
    pub(crate) fn new(
        kind: ScheduleErrorKind,
        at: Range<usize>,
        what: impl Into<String>,
        but: impl Into<String>,
    ) -> Self {
        Self { kind, field: None, at, what: what.into(), but: but.into(), source: None }
    }

    pub(crate) fn in_field(mut self, field: Field) -> Self {
        self.field = Some(field);
        self
    }

    pub(crate) fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    pub(crate) fn in_text(self, text: &str) -> ScheduleError {
        ScheduleError(Box::new(Inner { problem: self, text: text.to_owned() }))
    }
}

impl ScheduleError {
    /// Returns the kind of the error.
    ///
    /// ```
    /// use lock_cron::{Schedule, ScheduleErrorKind};
    ///
    /// let error = Schedule::cron("0 2 * *").unwrap_err();
    /// assert_eq!(error.kind(), ScheduleErrorKind::FieldCount);
    /// ```
    #[must_use]
    pub fn kind(&self) -> ScheduleErrorKind {
        self.0.problem.kind
    }

    /// Returns the invalid text, or only its beginning if it is too long.
    ///
    /// ```
    /// use lock_cron::Schedule;
    ///
    /// assert_eq!(Schedule::cron("0 25 * * *").unwrap_err().text(), "0 25 * * *");
    /// ```
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the byte range of the error in [`text`](Self::text).
    ///
    /// ```
    /// use lock_cron::Schedule;
    ///
    /// let error = Schedule::cron("0 9,25 * * *").unwrap_err();
    /// assert_eq!(&error.text()[error.range()], "25");
    /// ```
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.0.problem.at.clone()
    }

    /// Returns the invalid field, if the error is in a single field.
    ///
    /// ```
    /// use lock_cron::{Schedule, schedule::Field};
    ///
    /// assert_eq!(Schedule::cron("0 25 * * *").unwrap_err().field(), Some(Field::Hour));
    /// ```
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        self.0.problem.field
    }
}

/// Replaces control characters, which would move the marker or the terminal's cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { problem, text } = &*self.0;
        f.write_str(&plain(&problem.what))?;
        // If the whole text is wrong, it is not quoted twice.
        if problem.at.len() < text.trim().len() {
            write!(f, " in `{}`", plain(text))?;
        }
        write!(f, " {}", plain(&problem.but))?;
        if !f.alternate() {
            return Ok(());
        }
        if let Some(source) = &problem.source {
            write!(f, ": {source}")?;
        }
        let characters = |range: Range<usize>| text.get(range).map_or(0, |part| part.chars().count());
        let before = characters(0..problem.at.start);
        let marks = characters(problem.at.clone()).max(1);
        write!(f, "\n  {}\n  {:before$}{:^>marks$}", plain(text), "", "")?;
        match problem.field {
            Some(field) => write!(f, " {field}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { problem, text } = &*self.0;
        let mut debug = f.debug_struct("ScheduleError");
        debug.field("kind", &problem.kind).field("message", &self.to_string());
        debug.field("text", text).field("range", &problem.at);
        if let Some(field) = problem.field {
            debug.field("field", &field);
        }
        if let Some(source) = &problem.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

impl Error for ScheduleError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.problem.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// A field of a cron pattern.
///
/// ```
/// assert_eq!(lock_cron::schedule::Field::DayOfWeek.to_string(), "day of the week");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// 0-59; the first of six or seven fields.
    Second,
    /// 0-59.
    Minute,
    /// 0-23.
    Hour,
    /// 1-31, `L`, `LW`, `15W`.
    DayOfMonth,
    /// 1-12 or JAN-DEC.
    Month,
    /// 0-7 or SUN-SAT, where both 0 and 7 are Sunday; `MON#2`, `FRIL`.
    DayOfWeek,
    /// 1970-5000; the last of seven fields.
    Year,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    pub(crate) const fn first(self) -> u16 {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::DayOfWeek => 0,
            Self::DayOfMonth | Self::Month => 1,
            Self::Year => 1970,
        }
    }

    pub(crate) const fn last(self) -> u16 {
        match self {
            Self::Second | Self::Minute => 59,
            Self::Hour => 23,
            Self::DayOfMonth => 31,
            Self::Month => 12,
            Self::DayOfWeek => 7,
            Self::Year => 5000,
        }
    }

    /// Returns the upper bound of a bare `H`: a day that every month has, and 6 for days of the week, so that Sunday is
    /// not counted twice.
    pub(crate) const fn last_hashed(self) -> u16 {
        match self {
            Self::DayOfMonth => 28,
            other => other.last_in_turn(),
        }
    }

    /// Returns the last value of an open-ended step such as `1/2`. For days of the week it is 6, so
    /// that Sunday is not counted twice.
    pub(crate) const fn last_in_turn(self) -> u16 {
        match self {
            Self::DayOfWeek => 6,
            other => other.last(),
        }
    }

    pub(crate) const fn allowed(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0-59",
            Self::Hour => "0-23",
            Self::DayOfMonth => "1-31, `L`, `LW` or `15W`",
            Self::Month => "1-12 or JAN-DEC",
            Self::DayOfWeek => "0-7, SUN-SAT, `MON#2` or `FRIL`",
            Self::Year => "1970-5000",
        }
    }

    pub(crate) fn names(self) -> (&'static [&'static str], u16) {
        match self {
            Self::Month => (&MONTHS, 1),
            Self::DayOfWeek => (&DAYS, 0),
            _ => (&[], 0),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of the month",
            Self::Month => "month",
            Self::DayOfWeek => "day of the week",
            Self::Year => "year",
        })
    }
}

/// A part of a string, and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Token<'a> {
    pub(crate) fn problem(self, kind: ScheduleErrorKind, what: &str, but: impl Into<String>) -> Problem {
        let what = format!("{what} `{}`", self.text);
        Problem::new(kind, self.at..self.at + self.text.len(), what, but)
    }

    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        let (left, right) = self.text.split_at(at);
        (Self { text: left, at: self.at }, Self { text: right, at: self.at + at })
    }

    /// Splits at the first `mark`, a one-byte character, and drops the mark.
    pub(crate) fn cut(self, mark: char) -> Option<(Self, Self)> {
        let (left, right) = self.split_at(self.text.find(mark)?);
        Some((left, right.split_at(1).1))
    }

    pub(crate) fn pieces(self, mark: char) -> impl Iterator<Item = Self> {
        let mut at = self.at;
        self.text.split(mark).map(move |text| {
            let piece = Self { text, at };
            at += text.len() + 1;
            piece
        })
    }

    pub(crate) fn is(self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn number(self) -> Option<u16> {
        let digits = !self.text.is_empty() && self.text.bytes().all(|b| b.is_ascii_digit());
        // A number with too many digits counts as the largest one, which is out of every range.
        digits.then(|| self.text.parse().unwrap_or(u16::MAX))
    }
}

pub(crate) fn trim(token: Token<'_>) -> Token<'_> {
    let start = token.text.len() - token.text.trim_start().len();
    let token = token.split_at(start).1;
    token.split_at(token.text.trim_end().len()).0
}

/// Splits off the first word and the whitespace after it.
pub(crate) fn word(token: Token<'_>) -> (Token<'_>, Token<'_>) {
    let end = token.text.find(char::is_whitespace).unwrap_or(token.text.len());
    let (word, rest) = token.split_at(end);
    (word, trim(rest))
}
