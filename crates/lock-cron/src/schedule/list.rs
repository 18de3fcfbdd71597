//! The list in one field of a pattern, and its numeric form for the search for the next run.
//!
//! croner can also parse fields, but it accepts `MAY` as a minute, `1,,2` as a list, and `L` as a
//! weekday that never occurs, and its errors contain no positions.

use super::{
    error::{Problem, ScheduleErrorKind},
    field::Field,
    token::Token,
};

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
pub(crate) struct List {
    field: Field,
    items: Vec<Item>,
    /// Set for `+` before the days of the week: the day of the month and the day of the week must both match.
    both_days: bool,
}

impl List {
    /// Returns the list that stands for an omitted field.
    pub(crate) fn omitted(field: Field) -> Self {
        let item = match field {
            Field::Second => Item::Range { first: 0, last: 0, step: 1 },
            _ => Item::Every { step: 1 },
        };
        Self { field, items: vec![item], both_days: false }
    }

    pub(crate) fn parse(field: Field, token: Token<'_>) -> Result<Self, Problem> {
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
    pub(crate) fn is_interval(&self) -> bool {
        self.items.iter().any(|item| match item {
            Item::Every { .. } => true,
            Item::Hash { first, last, step } => {
                let everywhere = (self.field.first(), self.field.last_hashed());
                step.is_some() && (*first, *last) == everywhere
            }
            _ => false,
        })
    }

    pub(crate) fn has_hash(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Hash { .. }))
    }

    /// Returns the numeric form, with `hash` in place of `H`.
    pub(crate) fn numbers(&self, hash: u64) -> String {
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
