//! Strict decoding of script replies. A reply that is not listed in the script's header is an
//! error.

use crate::{
    client::Reply as RawReply,
    clock::Trust,
    error::{
        RequestError, misdated_reply, refused_by_script, server_error, unacknowledged, unexpected_reply,
    },
};
use bytes::Bytes;
use lock_core::{
    FencingToken,
    backend::{
        Acquired, Applied, BackendError, BackendErrorKind, ForceReleased, Inspected, Released, Renewed,
        Reply, StoredHold, StoredPermit, StoredPool,
    },
    clock::UtcTime,
};
use lock_quorum::{Extended, Healed, NodeReply, Vote};
use std::{ops::Range, str, sync::Arc, time::Duration};
use tokio::time::Instant;

/// A decoded reply: the server's time, a word, and the parts that follow it.
pub(crate) struct ScriptReply {
    pub(crate) what: &'static str,
    pub(crate) now: UtcTime,
    parts: Vec<RawReply>,
    /// The trust in the connection that received the reply.
    trust: Arc<Trust>,
}

/// The reason for the end of a connection after such a reply.
const UNEXPECTED: &str = "unexpected reply";

/// The times that a reply may have, in µs: from 2001 to 2255. No other reply over the same connection is such a number.
const TIMES: Range<u64> = 1_000_000_000_000_000..1 << 53;

/// Maximum number of tokens that `acquire.lua` reserves.
pub(crate) const MAX_RESERVE: u32 = 1000;

/// The number of leading parts: the time and the word.
const HEAD: usize = 2;

/// The number of parts in the reply to one extension.
const PER_ITEM: usize = 2;

/// The number of parts of a grant, the longest reply.
const MAX_PARTS: usize = HEAD + 3;

/// The error for a string in place of a lock.
const FOREIGN: &str = "WRONGTYPE the key is a string with an expiry: if it is a lock set by `SET NX PX`, see \
                       `RedisBackendBuilder::foreign_strings_are_busy`";

impl ScriptReply {
    /// Decodes the reply to a script that was sent at this time. The connection ends if no script returns such a reply.
    pub(crate) fn read(
        what: &'static str,
        reply: RawReply,
        trust: &Arc<Trust>,
        sent: Instant,
    ) -> Result<Self, RequestError> {
        let timed = match reply {
            RawReply::List(parts) => parts.first().and_then(time).map(|now| (now, parts)),
            _ => None,
        };
        let Some((now, parts)) = timed else {
            trust.lose(UNEXPECTED);
            return Err(unexpected_reply(what));
        };
        let is_believed = trust.believes(sent, now);
        let reply = Self::of_parts(what, now, parts, trust.clone())?;
        match reply.word() {
            "granted" | "renewed" | "reentered" | "extended" | "set" if !is_believed => {
                Err(misdated_reply(what))
            }
            // Its word identifies it, so the clock of the server has stepped. The next connection believes the time.
            _ => Ok(reply),
        }
    }

    fn of_parts(
        what: &'static str,
        now: UtcTime,
        parts: Vec<RawReply>,
        trust: Arc<Trust>,
    ) -> Result<Self, RequestError> {
        let reply = Self { what, now, parts, trust };
        match reply.part(1).and_then(RawReply::text) {
            Some("refused") => Err(refused_by_script(what, reply.text(0)?)),
            // The script may have written before it failed, so its text is classified like an error that is the whole
            // reply.
            Some("error") => Err(server_error(what, reply.text(0)?)),
            Some(_) => Ok(reply),
            None => Err(reply.unexpected()),
        }
    }

    /// Ends the connection, and returns the error for a reply that its script does not return.
    pub(crate) fn unexpected(&self) -> RequestError {
        self.trust.lose(UNEXPECTED);
        unexpected_reply(self.what)
    }

    /// Decodes the outcome. The connection ends if the script does not return such a reply.
    pub(crate) fn outcome<T>(
        &self,
        read: impl FnOnce() -> Result<T, RequestError>,
    ) -> Result<Reply<T>, RequestError> {
        let outcome = read().inspect_err(|error| {
            if error.is_unexpected() {
                self.trust.lose(UNEXPECTED);
            }
        });
        Ok(Reply::new(self.now, outcome?))
    }

    /// Decodes the replies of a ledger batch individually. `asked` contains the names of its requests.
    pub(crate) fn split(self, asked: &[&'static str]) -> Vec<Result<Self, RequestError>> {
        let is_complete = self.word() == "done" && self.len() == asked.len();
        let mut replies = self.parts.into_iter().skip(HEAD);
        let of_one = |what: &&'static str| match replies.next().filter(|_| is_complete) {
            // All have the time of the batch.
            Some(RawReply::List(parts)) if parts.first().and_then(time) == Some(self.now) => {
                Self::of_parts(what, self.now, parts, self.trust.clone())
            }
            _ => {
                self.trust.lose(UNEXPECTED);
                Err(unexpected_reply(what))
            }
        };
        asked.iter().map(of_one).collect()
    }

    /// Fails if the key is a string with an expiry.
    pub(crate) fn without_foreign_strings(self) -> Result<Self, RequestError> {
        match self.word() {
            "foreign" => Err(refused_by_script(self.what, FOREIGN)),
            _ => Ok(self),
        }
    }

    /// Fails if too few replicas acknowledged a grant, a renewal or a re-entry: a failover may lose the lease.
    pub(crate) fn kept_by_replicas(self, is_acknowledged: bool) -> Result<Self, RequestError> {
        match self.word() {
            "granted" | "renewed" | "reentered" if !is_acknowledged => Err(unacknowledged(self.what)),
            _ => Ok(self),
        }
    }

    fn part(&self, at: usize) -> Option<&RawReply> {
        self.parts.get(at)
    }

    /// Returns the word, which determines the parts that follow.
    pub(crate) fn word(&self) -> &str {
        self.part(1).and_then(RawReply::text).unwrap_or_default()
    }

    /// Returns the number of parts after the word.
    pub(crate) fn len(&self) -> usize {
        self.parts.len() - HEAD
    }

    /// Returns a text part. The first part after the word is number 0.
    pub(crate) fn text(&self, at: usize) -> Result<&str, RequestError> {
        self.part(HEAD + at).and_then(RawReply::text).ok_or_else(|| unexpected_reply(self.what))
    }

    pub(crate) fn number(&self, at: usize) -> Result<u64, RequestError> {
        self.part(HEAD + at).and_then(number).ok_or_else(|| unexpected_reply(self.what))
    }

    pub(crate) fn count(&self, at: usize) -> Result<u32, RequestError> {
        u32::try_from(self.number(at)?).map_err(|_| self.unexpected())
    }

    fn signed(&self, at: usize) -> Result<i64, RequestError> {
        self.part(HEAD + at).and_then(RawReply::integer).ok_or_else(|| unexpected_reply(self.what))
    }

    /// Returns the remaining time, sent as a PTTL in ms. A negative PTTL means that it is unknown.
    pub(crate) fn remaining(&self, at: usize) -> Result<Option<Duration>, RequestError> {
        Ok(u64::try_from(self.signed(at)?).ok().map(Duration::from_millis))
    }

    /// Returns `true` if the lock was granted and its counter was far below the clock, like one that Redisson created.
    pub(crate) fn has_foreign_counter(&self) -> bool {
        self.word() == "granted" && self.number(2).is_ok_and(|foreign| foreign > 0)
    }

    pub(crate) fn acquired(self) -> Result<Reply<Acquired>, RequestError> {
        self.outcome(|| match (self.word(), self.len()) {
            ("granted", 3) => {
                let (first, last) = (self.number(0)?, self.number(1)?);
                // Tokens need not be times: Redisson's counters are small numbers.
                if !(first..=first.saturating_add(MAX_RESERVE.into())).contains(&last) || last >= TIMES.end {
                    return Err(unexpected_reply(self.what));
                }
                Ok(Acquired::Granted { first: FencingToken::new(first), last: FencingToken::new(last) })
            }
            ("busy" | "foreign", 1) => Ok(Acquired::Busy { remaining: self.remaining(0)? }),
            ("queued", 1) => Ok(Acquired::Queued { remaining: self.remaining(0)? }),
            ("late", 0) => Ok(Acquired::Late),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    pub(crate) fn reentered(self) -> Result<Reply<Acquired>, RequestError> {
        self.outcome(|| match (self.word(), self.len()) {
            ("reentered", 0) => Ok(Acquired::Reentered),
            ("gone", 0) => Ok(Acquired::Gone),
            ("late", 0) => Ok(Acquired::Late),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    pub(crate) fn released(self) -> Result<Reply<Released>, RequestError> {
        self.outcome(|| match (self.word(), self.len()) {
            ("released", 1) => match listeners(self.signed(0)?) {
                Some(listeners) => Ok(Released::Released { listeners }),
                None => Err(unexpected_reply(self.what)),
            },
            ("kept", 0) => Ok(Released::Kept),
            ("gone", 1) => Ok(Released::Gone { held_by_other: self.number(0)? > 0 }),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    pub(crate) fn renewed(self) -> Result<Reply<Renewed>, RequestError> {
        self.outcome(|| match (self.word(), self.len()) {
            ("renewed", 0) => Ok(Renewed::Renewed),
            ("gone", 0) => Ok(Renewed::Gone),
            ("late", 0) => Ok(Renewed::Late),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    pub(crate) fn inspected(self) -> Result<Reply<Inspected>, RequestError> {
        self.outcome(|| match self.word() {
            "free" => Ok(Inspected::Free),
            "held" => {
                let (lease, depth) = (self.text(0)?, self.number(1)?);
                let depth = u32::try_from(depth).ok().filter(|&depth| depth > 0 && is_holder(lease));
                let depth = depth.ok_or_else(|| no_lock(self.what))?;
                let (lease, remaining) = (lease.to_owned(), self.remaining(2)?);
                Ok(Inspected::Held(StoredHold { lease, depth, remaining }))
            }
            _ => Err(unexpected_reply(self.what)),
        })
    }

    pub(crate) fn inspected_pool(self) -> Result<Reply<Inspected>, RequestError> {
        self.outcome(|| {
            let holders = usize::try_from(self.number(0)?).map_err(|_| unexpected_reply(self.what))?;
            let permit = |at: usize| -> Result<_, RequestError> {
                let remaining = Duration::from_millis(self.number(at + 2)?);
                Ok(StoredPermit { lease: self.text(at)?.to_owned(), weight: self.count(at + 1)?, remaining })
            };
            let mut permits = (1..self.len()).step_by(3).map(permit).collect::<Result<Vec<_>, _>>()?;
            if self.word() != "pool" || holders > permits.len() {
                return Err(unexpected_reply(self.what));
            }
            let waiters = permits.split_off(holders);
            Ok(Inspected::Pool(StoredPool { holders: permits, waiters }))
        })
    }

    pub(crate) fn probed(self) -> Result<(), RequestError> {
        match self.word() {
            "fit" => Ok(()),
            "lacks" => {
                let missing = self.text(0)?;
                let message = format!(
                    "failed to connect to redis: the user lacks permissions ({missing}); grant those listed in \
                     `docs/protocol.md`"
                );
                Err(BackendError::new(BackendErrorKind::Denied, Applied::No, message).into())
            }
            "failed" => {
                let what = format!("{} ({})", self.what, self.text(0)?);
                Err(refused_by_script(&what, self.text(1)?))
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(crate) fn forced(self) -> Result<Reply<ForceReleased>, RequestError> {
        self.outcome(|| match self.word() {
            "forced" => Ok(ForceReleased::Released),
            "changed" => Ok(ForceReleased::HolderChanged),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    pub(crate) fn vote(self) -> Result<NodeReply<Vote>, RequestError> {
        self.of_node(|| match (self.word(), self.len()) {
            ("granted", 1) => Ok(Vote::Granted),
            ("busy", 4) => Ok(Vote::Busy {
                remaining: self.remaining(1)?,
                counter: self.number(2)?,
                holder: self.text(3)?.to_owned(),
            }),
            ("stale", 2) => Ok(Vote::Stale { counter: self.number(1)? }),
            ("clock", 1) => Ok(Vote::ClockOff),
            ("quarantined", 1) => Ok(Vote::Quarantined),
            ("late", 1) => Ok(Vote::Late),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    pub(crate) fn healed(self) -> Result<NodeReply<Healed>, RequestError> {
        self.of_node(|| match (self.word(), self.len()) {
            ("set", 1) => Ok(Healed::Set),
            ("busy", 1) => Ok(Healed::Busy),
            ("late", 1) => Ok(Healed::Late),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    /// Returns the replies to this many extensions, in order.
    pub(crate) fn extended(
        self,
        items: usize,
    ) -> Result<Vec<Result<NodeReply<Extended>, RequestError>>, RequestError> {
        if self.word() != "extended" || self.len() != 1 + PER_ITEM * items {
            return Err(self.unexpected());
        }
        let answer = |item: usize| {
            let at = 1 + PER_ITEM * item;
            self.of_node(|| match self.text(at)? {
                "extended" => Ok(Extended::Extended),
                "gone" => Ok(Extended::Gone),
                "late" => Ok(Extended::Late),
                "refused" => Err(refused_by_script(self.what, self.text(at + 1)?)),
                "error" => Err(server_error(self.what, self.text(at + 1)?)),
                _ => Err(unexpected_reply(self.what)),
            })
        };
        Ok((0..items).map(answer).collect())
    }

    /// Adds the node's time and its age, which is the first part of the reply.
    fn of_node<T>(
        &self,
        read: impl FnOnce() -> Result<T, RequestError>,
    ) -> Result<NodeReply<T>, RequestError> {
        let Reply { now, outcome: (age, outcome), .. } = self.outcome(|| Ok((self.number(0)?, read()?)))?;
        Ok(NodeReply { now, age: Duration::from_micros(age), outcome })
    }
}

/// Expands a reply that contains only the time, which a script returns in its usual case, to the
/// word and the numbers that it stands for. Returns any other reply unchanged.
pub(crate) fn in_full(reply: RawReply, word: &'static str, numbers: &[i64]) -> RawReply {
    let RawReply::Integer(_) = reply else { return reply };
    let mut parts = Vec::with_capacity(MAX_PARTS);
    parts.extend([reply, RawReply::Bytes(Bytes::from_static(word.as_bytes()))]);
    parts.extend(numbers.iter().copied().map(RawReply::Integer));
    RawReply::List(parts)
}

/// Splits the reply of a batch of this many operations into the replies of their own scripts. Those of the usual case
/// contain only the time.
pub(crate) fn batch(operations: usize, reply: RawReply) -> Option<Vec<RawReply>> {
    let RawReply::Bytes(text) = reply else { return None };
    let mut lines = str::from_utf8(&text).ok()?.split('\n').peekable();
    let now: i64 = lines.next()?.parse().ok()?;
    let mut replies = Vec::with_capacity(operations);
    for _ in 0..operations {
        let bytes = |line: &str| RawReply::Bytes(text.slice_ref(line.as_bytes()));
        let word = lines.next()?;
        if word.is_empty() {
            replies.push(RawReply::Integer(now));
            continue;
        }
        let mut parts = Vec::with_capacity(MAX_PARTS);
        parts.extend([RawReply::Integer(now), bytes(word)]);
        if matches!(word, "refused" | "error") {
            parts.push(bytes(lines.next()?));
        }
        // A word is never a number.
        while let Some(number) = lines.peek().and_then(|line| line.parse().ok()) {
            parts.push(RawReply::Integer(number));
            lines.next();
        }
        replies.push(RawReply::List(parts));
    }
    lines.next().is_none().then_some(replies)
}

/// Returns `true` if this is a holder as [`StoredHold`] defines it: `uuid:number`; Redisson's number may be negative.
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

fn no_lock(what: &'static str) -> RequestError {
    refused_by_script(what, "WRONGTYPE the key is a hash that is not a lock")
}

/// Decodes the number of waiters that were woken: `None` within the result if nobody was, and `None` if no server
/// returns such a number.
pub(crate) fn listeners(number: i64) -> Option<Option<u32>> {
    match number {
        -1 => Some(None),
        number => u32::try_from(number).ok().map(Some),
    }
}

/// Decodes a time of the server.
fn time(part: &RawReply) -> Option<UtcTime> {
    number(part).filter(|time| TIMES.contains(time)).map(UtcTime::from_micros)
}

/// Decodes a number: an integer, or text as the run ledger stores it.
fn number(part: &RawReply) -> Option<u64> {
    match part {
        RawReply::Integer(number) => u64::try_from(*number).ok(),
        other => other.text()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_distinguished_from_other_fields() {
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
    fn batch_is_split_into_the_replies_of_its_operations() {
        let split = |text: &'static str, operations| batch(operations, RawReply::Bytes(text.into()));
        let text = |text: &'static str| RawReply::Bytes(text.into());
        let number = RawReply::Integer;
        let replies = vec![
            number(7),
            RawReply::List(vec![number(7), text("busy"), number(-1)]),
            number(7),
            RawReply::List(vec![number(7), text("error"), text("42")]),
        ];
        assert_eq!(split("7\n\nbusy\n-1\n\nerror\n42", 4), Some(replies));
        assert_eq!(split("7\n", 1), Some(vec![number(7)]));
        for (incomplete, operations) in [("7", 1), ("7\n\n", 1), ("7\nerror", 1), ("", 0), ("word\n", 1)] {
            assert_eq!(split(incomplete, operations), None, "{incomplete:?}");
        }
    }

    #[test]
    fn a_depth_that_is_not_positive_is_no_lock() {
        let holder = "b983c153-7421-469a-addb-44fb92259a1b:1";
        let inspected = |lease: &str, depth: &str| {
            let text = |text: &str| RawReply::Bytes(text.to_owned().into());
            let reply = ["1767225600000000", "held", lease, depth, "-1"].map(text).to_vec();
            let trust = Arc::default();
            ScriptReply::read("inspect", RawReply::List(reply), &trust, Instant::now())?.inspected()
        };
        assert!(inspected(holder, "2").is_ok());
        for (lease, depth) in [(holder, "0"), (holder, "4294967296"), ("apples", "3")] {
            assert_eq!(inspected(lease, depth).unwrap_err().kind(), BackendErrorKind::WrongType);
        }
    }
}
