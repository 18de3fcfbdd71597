//! Replies of the scripts, read strictly: whatever is not in a script's header is an error, not a guess.

use crate::error::{refused, translate};
use fred::{
    error::{Error, ErrorKind},
    types::Value,
};
use lock_core::{
    Applied, BackendError, BackendErrorKind, FencingToken, ServerTime,
    backend::{Acquired, Forced, Inspected, Released, Renewed, Reply, StoredHold},
};
use std::time::Duration;

/// A reply on its way to an answer: the server's time, a word, and what follows.
pub(crate) struct Raw {
    pub(crate) what: &'static str,
    pub(crate) now: ServerTime,
    pub(crate) word: String,
    pub(crate) rest: Vec<Value>,
}

impl Raw {
    pub(crate) fn read(what: &'static str, value: Value) -> Result<Self, BackendError> {
        let mut values = array(what, value)?.into_iter();
        let now = values.next().as_ref().and_then(number).ok_or_else(|| nonsense(what))?;
        let word = values.next().and_then(|v| v.into_string()).ok_or_else(|| nonsense(what))?;
        let raw = Self { what, now: ServerTime::from_micros(now), word, rest: values.collect() };
        match raw.word.as_str() {
            "refused" => Err(refused(what, &Error::new(ErrorKind::Unknown, raw.text(0)?))),
            _ => Ok(raw),
        }
    }

    pub(crate) fn text(&self, at: usize) -> Result<String, BackendError> {
        self.rest.get(at).and_then(Value::as_string).ok_or_else(|| nonsense(self.what))
    }

    pub(crate) fn number(&self, at: usize) -> Result<u64, BackendError> {
        self.rest.get(at).and_then(number).ok_or_else(|| nonsense(self.what))
    }

    /// A PTTL; negative is unknown.
    fn remaining(&self, at: usize) -> Result<Option<Duration>, BackendError> {
        let ms = self.rest.get(at).and_then(Value::as_i64).ok_or_else(|| nonsense(self.what))?;
        Ok(u64::try_from(ms).ok().map(Duration::from_millis))
    }

    /// Whether the counter of a granted lock counted otherwise than ours do.
    pub(crate) fn has_foreign_counter(&self) -> bool {
        self.word == "granted" && self.number(2).is_ok_and(|foreign| foreign > 0)
    }

    pub(crate) fn acquired(self) -> Result<Reply<Acquired>, BackendError> {
        let outcome = match self.word.as_str() {
            "granted" => {
                let (first, last) = (self.number(0)?, self.number(1)?);
                Acquired::Granted { first: FencingToken::new(first), last: FencingToken::new(last) }
            }
            "busy" => Acquired::Busy { remaining: self.remaining(0)?, counter: None },
            "late" => Acquired::Late,
            "reentered" => Acquired::Reentered,
            "gone" => Acquired::Gone,
            _ => return Err(nonsense(self.what)),
        };
        Ok(Reply::new(self.now, outcome))
    }

    pub(crate) fn released(self) -> Result<Reply<Released>, BackendError> {
        let outcome = match self.word.as_str() {
            "released" => {
                let listeners =
                    self.rest.first().and_then(Value::as_i64).ok_or_else(|| nonsense(self.what))?;
                Released::Released { listeners: u32::try_from(listeners).ok() }
            }
            "kept" => Released::Kept,
            "gone" => Released::Gone { held_by_other: self.number(0)? > 0 },
            _ => return Err(nonsense(self.what)),
        };
        Ok(Reply::new(self.now, outcome))
    }

    pub(crate) fn inspected(self) -> Result<Reply<Inspected>, BackendError> {
        let outcome = match self.word.as_str() {
            "free" => Inspected::Free,
            "held" => {
                let (lease, depth) = (self.text(0)?, self.number(1)?);
                let depth = u32::try_from(depth).ok().filter(|&depth| depth > 0 && is_holder(&lease));
                let depth = depth.ok_or_else(|| no_lock(self.what))?;
                Inspected::Held(StoredHold { lease, depth, remaining: self.remaining(2)? })
            }
            _ => return Err(nonsense(self.what)),
        };
        Ok(Reply::new(self.now, outcome))
    }

    pub(crate) fn probed(self) -> Result<(), BackendError> {
        match self.word.as_str() {
            "fit" => Ok(()),
            "lacks" => {
                let missing = self.text(0)?;
                let message = format!(
                    "connect to redis: the user lacks rights ({missing}): give it those listed in `docs/protocol.md`"
                );
                Err(BackendError::new(BackendErrorKind::Denied, Applied::No, message))
            }
            "failed" => {
                let what = format!("{} ({})", self.what, self.text(0)?);
                Err(refused(&what, &Error::new(ErrorKind::Unknown, self.text(1)?)))
            }
            _ => Err(nonsense(self.what)),
        }
    }

    pub(crate) fn forced(self) -> Result<Reply<Forced>, BackendError> {
        let outcome = match self.word.as_str() {
            "forced" => Forced::Forced,
            "changed" => Forced::Changed,
            _ => return Err(nonsense(self.what)),
        };
        Ok(Reply::new(self.now, outcome))
    }
}

/// One answer for each renewal of a batch.
pub(crate) type Renewals = Vec<Result<Reply<Renewed>, BackendError>>;

/// The answers of a batch of renewals, each on its own, and the server's time.
pub(crate) fn renewals(value: Value, asked: usize) -> Result<(ServerTime, Renewals), BackendError> {
    let what = "renew";
    let mut values = array(what, value)?.into_iter();
    let now = values.next().as_ref().and_then(number).ok_or_else(|| nonsense(what))?;
    let now = ServerTime::from_micros(now);
    let answers: Renewals = values
        .map(|value| match value.as_string().as_deref() {
            Some("renewed") => Ok(Reply::new(now, Renewed::Renewed)),
            Some("gone") => Ok(Reply::new(now, Renewed::Gone)),
            Some("late") => Ok(Reply::new(now, Renewed::Late)),
            // Perhaps after the expiry was set: unknown.
            Some(error) => Err(translate(what, &Error::new(ErrorKind::Unknown, error.to_owned()))),
            None => Err(nonsense(what)),
        })
        .collect();
    if answers.len() == asked { Ok((now, answers)) } else { Err(nonsense(what)) }
}

pub(crate) fn array(what: &str, value: Value) -> Result<Vec<Value>, BackendError> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(nonsense(what)),
    }
}

/// Whether this is a holder as [`StoredHold`] promises it: `uuid:number`, where Redisson's number may be negative.
fn is_holder(text: &str) -> bool {
    let hyphen = |at| matches!(at, 8 | 13 | 18 | 23);
    let is_uuid = |text: &str| {
        let fits = |(at, byte): (usize, u8)| if hyphen(at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
        text.len() == 36 && text.bytes().enumerate().all(fits)
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(':')
        .is_some_and(|(uuid, number)| is_uuid(uuid) && is_number(number.strip_prefix('-').unwrap_or(number)))
}

fn no_lock(what: &'static str) -> BackendError {
    refused(what, &Error::new(ErrorKind::Unknown, "WRONGTYPE the key is a hash that is no lock"))
}

/// Numbers come as integers, or as text where they would not survive Lua's formatting.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(n) => u64::try_from(*n).ok(),
        other => other.as_string()?.parse().ok(),
    }
}

pub(crate) fn nonsense(what: &str) -> BackendError {
    let message =
        format!("{what} on redis: a reply that no script gives; is something else behind this address?");
    BackendError::new(BackendErrorKind::Protocol, Applied::Unknown, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_told_from_other_fields() {
        for holder in ["b983c153-7421-469a-addb-44fb92259a1b:1", "B983C153-7421-469A-ADDB-44FB92259A1B:-12"] {
            assert!(is_holder(holder), "{holder}");
        }
        for other in [
            "",
            "apples",
            "b983c153-7421-469a-addb-44fb92259a1b",
            "b983c153-7421-469a-addb-44fb92259a1b:",
            "b983c153-7421-469a-addb-44fb92259a1b:-",
            "b983c153-7421-469a-addb-44fb92259a1b:--1",
            "b983c153-7421-469a-addb-44fb92259a1b:1:lock_count",
            "b983c15374-21-469a-addb-44fb92259a1b:1",
            "b983c153-7421-469a-addb-44fb92259a1g:1",
        ] {
            assert!(!is_holder(other), "{other}");
        }
    }

    #[test]
    fn a_depth_that_is_not_positive_is_no_lock() {
        let holder = "b983c153-7421-469a-addb-44fb92259a1b:1";
        let inspected = |lease: &str, depth: &str| {
            let reply = ["5", "held", lease, depth, "-1"].map(Value::from).to_vec();
            Raw::read("inspect", Value::Array(reply))?.inspected()
        };
        assert!(inspected(holder, "2").is_ok());
        for (lease, depth) in [(holder, "0"), (holder, "4294967296"), ("apples", "3")] {
            assert_eq!(inspected(lease, depth).unwrap_err().kind(), BackendErrorKind::WrongType);
        }
    }
}
