//! The grammar of a schedule's text: an optional zone, then a word after `@`, or a pattern of five to seven fields,
//! each with a list; and the numeric form of a pattern, for the search for the next run.
//!
//! croner can also parse fields, but it accepts `MAY` as a minute, `1,,2` as a list, and `L` as a
//! weekday that never occurs, and its errors contain no positions.

use super::error::{Field, Problem, ScheduleErrorKind, Token, trim, word};
use crate::hash::StableHash;
use jiff::{SignedDuration, Timestamp};

/// The maximum length of a schedule's text, in bytes.
///
/// ```
/// use lock_cron::{Schedule, ScheduleErrorKind, schedule::MAX_TEXT_BYTES};
///
/// let long = "0,".repeat(MAX_TEXT_BYTES);
/// assert_eq!(Schedule::cron(&long).unwrap_err().kind(), ScheduleErrorKind::TooLong);
/// ```
pub const MAX_TEXT_BYTES: usize = 1024;

/// A parsed text, with the zone that it names.
pub(crate) struct Text<'a> {
    pub(crate) zone: Option<Token<'a>>,
    pub(crate) body: Body<'a>,
    /// The text without its zone.
    pub(crate) rest: Token<'a>,
}

pub(crate) enum Body<'a> {
    Pattern(Pattern),
    Every(Token<'a>, SignedDuration),
    At(Timestamp),
}

impl<'a> Text<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Problem> {
        let rest = trim(Token { text, at: 0 });
        let (zone, rest) = match ["CRON_TZ=", "TZ="].into_iter().find(|prefix| rest.text.starts_with(prefix))
        {
            Some(prefix) => {
                let (zone, rest) = word(rest.split_at(prefix.len()).1);
                (Some(zone), rest)
            }
            None => (None, rest),
        };
        if rest.text.is_empty() {
            let but = "has no pattern: use `minute hour day-of-month month day-of-week`, as in `0 2 * * *`";
            return Err(Problem::new(ScheduleErrorKind::Empty, rest.at..rest.at, "the schedule", but));
        }
        Ok(Self { zone, body: body(rest)?, rest })
    }
}

fn body(rest: Token<'_>) -> Result<Body<'_>, Problem> {
    if !rest.text.starts_with('@') {
        return Ok(Body::Pattern(Pattern::parse(rest)?));
    }
    let (name, argument) = word(rest);
    match (name.text.to_ascii_lowercase().as_str(), argument.text.is_empty()) {
        ("@every", _) => match argument.text.parse() {
            Ok(period) => Ok(Body::Every(argument, period)),
            Err(source) => Err(argument
                .problem(ScheduleErrorKind::InvalidPeriod, "the period", "is invalid: use `@every 1h30m`")
                .because(source)),
        },
        ("@at", _) => match argument.text.parse() {
            Ok(instant) => Ok(Body::At(instant)),
            Err(source) => Err(argument
                .problem(
                    ScheduleErrorKind::InvalidInstant,
                    "the time",
                    "is invalid: use `@at 2030-01-31T09:00:00Z`",
                )
                .because(source)),
        },
        (name, true) if nickname(name).is_some() => {
            let fields = nickname(name).unwrap_or_default();
            Ok(Body::Pattern(Pattern::parse(Token { text: fields, at: rest.at })?))
        }
        _ => Err(rest.problem(
            ScheduleErrorKind::UnknownMacro,
            "the word",
            "is unknown: use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, `@every 5m`, `@at <time>` or \
             fields",
        )),
    }
}

fn nickname(name: &str) -> Option<&'static str> {
    match name {
        "@yearly" | "@annually" => Some("0 0 1 1 *"),
        "@monthly" => Some("0 0 1 * *"),
        "@weekly" => Some("0 0 * * 0"),
        "@daily" | "@midnight" => Some("0 0 * * *"),
        "@hourly" => Some("0 * * * *"),
        _ => None,
    }
}

/// Seven fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern([List; 7]);

impl Pattern {
    fn parse(token: Token<'_>) -> Result<Self, Problem> {
        let mut words = Vec::new();
        let mut rest = token;
        while !rest.text.is_empty() {
            let (next, after) = word(rest);
            if next.text.starts_with('#') {
                return Err(rest.problem(
                    ScheduleErrorKind::FieldCount,
                    "the comment",
                    "is not part of a schedule: remove it",
                ));
            }
            words.push(next);
            rest = after;
        }
        let (seconds, years) = match words.len() {
            5 => (false, false),
            6 => (true, false),
            7 => (true, true),
            count => {
                let fields = if count == 1 { "field" } else { "fields" };
                let but = format!(
                    "has {count} {fields}, not 5 to 7: use `[second] minute hour day-of-month month day-of-week [year]`"
                );
                return Err(token.problem(ScheduleErrorKind::FieldCount, "the pattern", but));
            }
        };
        let mut words = words.into_iter();
        let mut field = |field, written: bool| match written.then(|| words.next()).flatten() {
            Some(word) => List::parse(field, word),
            None => Ok(List::omitted(field)),
        };
        Ok(Self([
            field(Field::Second, seconds)?,
            field(Field::Minute, true)?,
            field(Field::Hour, true)?,
            field(Field::DayOfMonth, true)?,
            field(Field::Month, true)?,
            field(Field::DayOfWeek, true)?,
            field(Field::Year, years)?,
        ]))
    }

    /// Returns `true` for a star in minute or hour: the job follows real time, regardless of clock changes.
    pub(crate) fn is_interval(&self) -> bool {
        let [_, minute, hour, ..] = &self.0;
        minute.is_interval() || hour.is_interval()
    }

    pub(crate) fn has_hash(&self) -> bool {
        self.0.iter().any(List::has_hash)
    }

    /// Returns the numeric form, with a hash of `job` in place of `H` that differs in each field.
    pub(crate) fn numbers(&self, job: &str) -> String {
        let hash = StableHash::new().text(job);
        let field = |(at, list): (usize, &List)| list.numbers(hash.number(at as i64).finish());
        self.0.iter().enumerate().map(field).collect::<Vec<_>>().join(" ")
    }
}

/// One item of the list in a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Every { step: u16 },
    Range { first: u16, last: u16, step: u16 },
    Hash { first: u16, last: u16, step: Option<u16> },
    Last,
    LastWorkday,
    NearestWorkday(u16),
    Nth { day: u16, nth: u16 },
    LastOf(u16),
}

/// A parsed field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct List {
    field: Field,
    items: Vec<Item>,
    /// Set for `+` before the days of the week: the day of the month and the day of the week must both match.
    both_days: bool,
}

impl List {
    /// Returns the list that stands for an omitted field.
    fn omitted(field: Field) -> Self {
        let item = match field {
            Field::Second => Item::Range { first: 0, last: 0, step: 1 },
            _ => Item::Every { step: 1 },
        };
        Self { field, items: vec![item], both_days: false }
    }

    fn parse(field: Field, token: Token<'_>) -> Result<Self, Problem> {
        let both_days = field == Field::DayOfWeek && token.text.starts_with('+');
        let list = token.split_at(usize::from(both_days)).1;
        let items = list.pieces(',').map(|piece| item(field, piece, token)).collect::<Result<Vec<_>, _>>();
        let items = items.map_err(|problem| problem.in_field(field))?;
        if items.contains(&Item::Last) && items.contains(&Item::LastWorkday) {
            let problem = wrong(field, token, "contains both `L` and `LW`: use a job for each");
            return Err(problem.in_field(field));
        }
        Ok(Self { field, items, both_days })
    }

    /// Returns `true` for a star or its equivalent: the job follows real time.
    fn is_interval(&self) -> bool {
        self.items.iter().any(|item| match item {
            Item::Every { .. } => true,
            Item::Hash { first, last, step } => {
                let everywhere = (self.field.first(), self.field.last_hashed());
                step.is_some() && (*first, *last) == everywhere
            }
            _ => false,
        })
    }

    fn has_hash(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Hash { .. }))
    }

    /// Returns the numeric form, with `hash` in place of `H`.
    fn numbers(&self, hash: u64) -> String {
        let list = match self.items.contains(&Item::Every { step: 1 }) {
            true => "*".to_owned(),
            false => {
                self.items.iter().map(|item| item.numbers(self.field, hash)).collect::<Vec<_>>().join(",")
            }
        };
        if self.both_days { format!("+{list}") } else { list }
    }
}

impl Item {
    fn numbers(&self, field: Field, hash: u64) -> String {
        match *self {
            // Not `*/n`: croner would count years from the year 1.
            Self::Every { step } => format!("{}-{}/{step}", field.first(), field.last()),
            Self::Range { first, last, step: _ } if first == last => first.to_string(),
            Self::Range { first, last, step } => format!("{first}-{last}/{step}"),
            Self::Hash { first, last, step } => {
                let choices = step.unwrap_or(last - first + 1);
                let chosen = first + (hash % u64::from(choices)) as u16;
                let last = if step.is_some() { last } else { chosen };
                Self::Range { first: chosen, last, step: choices }.numbers(field, hash)
            }
            Self::Last => "L".into(),
            Self::LastWorkday => "LW".into(),
            Self::NearestWorkday(day) => format!("{day}W"),
            Self::Nth { day, nth } => format!("{}#{nth}", day % 7),
            Self::LastOf(day) => format!("{}L", day % 7),
        }
    }
}

fn wrong(field: Field, token: Token<'_>, but: impl Into<String>) -> Problem {
    token.problem(ScheduleErrorKind::InvalidField, &format!("the {field}"), but).in_field(field)
}

fn item(field: Field, piece: Token<'_>, whole: Token<'_>) -> Result<Item, Problem> {
    if piece.text.is_empty() {
        return Err(wrong(
            field,
            whole,
            "contains an empty item: separate the values with single commas, without spaces",
        ));
    }
    let (base, step) = match piece.cut('/') {
        Some((base, step)) => (base, Some(self::step(field, step)?)),
        None => (piece, None),
    };
    if let Some(special) = special(field, base)? {
        return match step {
            None => Ok(special),
            Some(_) => Err(wrong(field, piece, "cannot have a step: remove the `/` and everything after it")),
        };
    }
    let (first, last, range) = match (base.is("*"), hashed(field, base)?, base.cut('-')) {
        (true, ..) => {
            return Ok(Item::Every { step: fitting(field, piece, step, field.first(), field.last())? });
        }
        (_, Some((first, last)), _) => {
            let fitting = step.map(|s| fitting(field, piece, Some(s), first, last)).transpose()?;
            return Ok(Item::Hash { first, last, step: fitting });
        }
        (_, _, Some((first, last))) => (value(field, first)?, value(field, last)?, true),
        (_, _, None) => {
            let first = value(field, base)?;
            (first, if step.is_some() { first.max(field.last_in_turn()) } else { first }, false)
        }
    };
    // In `FRI-SUN`, Sunday is 7; in a range that begins on Sunday, it is 0.
    let last = if range && field == Field::DayOfWeek && last == 0 && first > 0 { 7 } else { last };
    if first > last {
        let but = format!("goes backwards: use `{first}-{},{}-{last}`", field.last(), field.first());
        return Err(wrong(field, piece, but));
    }
    Ok(Item::Range { first, last, step: fitting(field, piece, step, first, last)? })
}

fn step(field: Field, token: Token<'_>) -> Result<u16, Problem> {
    match token.number() {
        Some(0) => Err(wrong(field, token, "is a step of zero: use 1 or more")),
        Some(step) => Ok(step),
        None => Err(wrong(field, token, "is not a step: use a number, as in `*/5`")),
    }
}

/// Checks a step. In the minutes, `*/90` would mean every hour, which is never the intention.
fn fitting(field: Field, piece: Token<'_>, step: Option<u16>, first: u16, last: u16) -> Result<u16, Problem> {
    let step = step.unwrap_or(1);
    if step > 1 && step > last - first {
        let but = format!("has a step larger than the range {first}-{last}: use a smaller step, or `@every`");
        return Err(wrong(field, piece, but));
    }
    Ok(step)
}

fn value(field: Field, token: Token<'_>) -> Result<u16, Problem> {
    let (names, first) = field.names();
    let named = names.iter().position(|name| token.is(name)).map(|at| at as u16 + first);
    match token.number().or(named) {
        Some(value) if (field.first()..=field.last()).contains(&value) => Ok(value),
        Some(_) => Err(wrong(field, token, format!("is out of range: use {}", field.allowed()))),
        None => Err(wrong(field, token, format!("is not a valid value: use {}", field.allowed()))),
    }
}

/// Parses `H`, or `H(0-29)`.
fn hashed(field: Field, token: Token<'_>) -> Result<Option<(u16, u16)>, Problem> {
    if field == Field::Year {
        return Ok(None);
    }
    if token.is("H") {
        return Ok(Some((field.first(), field.last_hashed())));
    }
    let Some((head, rest)) = token.cut('(') else { return Ok(None) };
    let inside = rest.text.strip_suffix(')').map(|text| Token { text, at: rest.at });
    match (head.is("H"), inside.and_then(|inside| inside.cut('-'))) {
        (true, Some((first, last))) => match (value(field, first)?, value(field, last)?) {
            (first, last) if first <= last => Ok(Some((first, last))),
            _ => Err(wrong(field, token, "goes backwards: put the lower value first")),
        },
        _ => Err(wrong(field, token, "is invalid: use a range within `H`, as in `H(0-29)`")),
    }
}

/// Parses the items that only the two day fields allow.
fn special(field: Field, token: Token<'_>) -> Result<Option<Item>, Problem> {
    let tail =
        |length: usize| token.text.len().checked_sub(length).filter(|at| token.text.is_char_boundary(*at));
    let ends = |letter: &str| {
        let (head, tail) = token.split_at(tail(1)?);
        (tail.is(letter) && !head.text.is_empty()).then_some(head)
    };
    match field {
        Field::DayOfMonth | Field::DayOfWeek if token.text == "?" => Ok(Some(Item::Every { step: 1 })),
        Field::DayOfMonth if token.is("L") => Ok(Some(Item::Last)),
        Field::DayOfMonth if token.is("LW") => Ok(Some(Item::LastWorkday)),
        Field::DayOfMonth => match ends("W") {
            Some(day) => Ok(Some(Item::NearestWorkday(value(field, day)?))),
            None => Ok(None),
        },
        Field::DayOfWeek if token.is("L") => {
            Err(wrong(field, token, "names no day: use `FRIL` for the last Friday"))
        }
        Field::DayOfWeek => match (token.cut('#'), ends("L")) {
            (Some((day, nth)), _) => match nth.number() {
                Some(nth @ 1..=5) => Ok(Some(Item::Nth { day: value(field, day)?, nth })),
                _ => Err(wrong(field, nth, "is not a week of a month: use 1-5 after `#`")),
            },
            (None, Some(day)) => Ok(Some(Item::LastOf(value(field, day)?))),
            (None, None) => Ok(None),
        },
        _ => Ok(None),
    }
}
