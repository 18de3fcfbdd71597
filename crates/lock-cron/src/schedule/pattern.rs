//! A pattern of five to seven fields.

use super::{
    error::{Problem, ScheduleErrorKind},
    field::Field,
    list::List,
    token::{Token, word},
};
use crate::hash::StableHash;

/// Seven fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern([List; 7]);

impl Pattern {
    pub(crate) fn parse(token: Token<'_>) -> Result<Self, Problem> {
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
