//! The parts of a schedule's text: an optional zone, then a word after `@` or a pattern.

use super::{
    error::{Problem, ScheduleErrorKind},
    pattern::Pattern,
    token::{Token, trim, word},
};
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
