//! Translation of an operation into the keys and arguments of its script, and of the script's reply
//! into the operation's result.

use crate::{
    client::Reply as RawReply,
    cluster::slot_of,
    error::{RequestError, overdue},
    keys,
    script::{self, Script, Words},
    script_reply::{self, ScriptReply},
};
use lock_core::{
    backend::{
        AcquireMode, BackendError, LeaseId, NotifyWaiters, Operation, Outcome, PermitRequest, Submission,
    },
    clock::UtcTime,
};
use std::{
    borrow::Cow,
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// Returns the script of an operation.
pub(super) fn script(operation: &Operation) -> &'static Script {
    match operation {
        _ if operation.name().is_pool() => &script::PERMITS,
        Operation::Acquire(request) => match &request.mode {
            AcquireMode::Reenter { .. } => &script::REENTER,
            AcquireMode::New { .. } | AcquireMode::Permit(_) => &script::ACQUIRE,
        },
        Operation::Renew(_) => &script::RENEW,
        Operation::Release(_) => &script::RELEASE,
    }
}

/// Returns the function of the batch script that executes the operation.
pub(super) fn function(operation: &Operation) -> &'static str {
    match operation {
        Operation::Acquire(request) => match &request.mode {
            AcquireMode::New { reserve: 0, floor: None } | AcquireMode::Permit(_) => "acquire",
            AcquireMode::New { .. } => "reserve",
            AcquireMode::Reenter { .. } => "reenter",
        },
        Operation::Renew(_) => "renew",
        Operation::Release(_) => "release",
    }
}

/// Returns the phrase that names the operation in errors.
pub(crate) fn what(operation: &Operation) -> &'static str {
    script(operation).name
}

/// Returns the number of keys of the operation.
pub(super) fn keys(operation: &Operation) -> usize {
    match operation {
        _ if operation.name().is_pool() => 3,
        Operation::Acquire(request) if matches!(request.mode, AcquireMode::New { .. }) => 2,
        _ => 1,
    }
}

pub(super) fn write_keys(operation: &Operation, words: &mut Words) {
    let name = operation.name();
    words.push(Cow::Owned(name.as_str().to_owned()));
    if name.is_pool() {
        words.push(Cow::Owned(keys::queue(name)));
    }
    if keys(operation) >= 2 {
        words.push(Cow::Owned(keys::counter(name)));
    }
}

/// Writes the arguments, except the one that indicates whether channels are sharded. `retention` is that of the
/// backend.
pub(super) fn write_arguments(operation: &Operation, retention: Option<Duration>, words: &mut Words) {
    let owned = |text: String| Cow::Owned(text);
    // An argument, since a channel passed as a key would require permission for a key with its name.
    let channel = || owned(keys::channel(operation.name()));
    let is_pool = operation.name().is_pool();
    let is_silent = matches!(operation, Operation::Release(request) if request.notify == NotifyWaiters::No);
    if is_pool {
        words.push(if is_silent { Cow::Borrowed("") } else { channel() });
    }
    match operation {
        Operation::Acquire(request) => {
            words.extend([lease(request.lease), owned(millis(request.duration))]);
            let not_after = owned(request.not_after.as_micros().to_string());
            match request.mode {
                AcquireMode::New { reserve, floor } => {
                    let retention = request.retention.unless(retention);
                    words.extend([
                        not_after,
                        retention.map_or(Cow::Borrowed(""), |retention| owned(millis(retention))),
                    ]);
                    if reserve > 0 || floor.is_some() {
                        words.extend([
                            small(reserve),
                            floor.map_or(Cow::Borrowed(""), |floor| owned(floor.to_string())),
                        ]);
                    }
                }
                AcquireMode::Reenter { depth } => words.extend([small(depth), not_after]),
                AcquireMode::Permit(ref permit) => {
                    let PermitRequest { share, place, floor } = **permit;
                    let retention = request.retention.unless(retention).map(millis);
                    let (place, patience) = match place {
                        Some(place) => (lease(place.id), owned(millis(place.patience))),
                        None => (Cow::Borrowed(""), Cow::Borrowed("0")),
                    };
                    words.extend([not_after, owned(retention.unwrap_or_default())]);
                    words.extend([small(share.weight), small(share.limit), place, patience]);
                    words.push(floor.map_or(Cow::Borrowed(""), |floor| owned(floor.to_string())));
                }
            }
        }
        Operation::Renew(request) => words.extend([
            lease(request.lease),
            owned(millis(request.duration)),
            owned(request.not_after.as_micros().to_string()),
        ]),
        Operation::Release(request) => {
            words.extend([lease(request.lease), small(request.depth_left)]);
            if !is_pool {
                words.push(if is_silent { Cow::Borrowed("") } else { channel() });
            }
        }
    }
}

/// Expands a script reply that contains only the time.
pub(crate) fn in_full(operation: &Operation, reply: RawReply) -> RawReply {
    let RawReply::Integer(now) = reply else { return reply };
    match operation {
        Operation::Acquire(request) => match &request.mode {
            // With a floor, the tokens follow.
            AcquireMode::New { floor: Some(_), .. } => reply,
            AcquireMode::New { reserve, .. } => {
                let last = now.saturating_add(i64::from((*reserve).min(script_reply::MAX_RESERVE)));
                script_reply::in_full(reply, "granted", &[now, last, 0])
            }
            AcquireMode::Permit(_) => script_reply::in_full(reply, "granted", &[now, now, 0]),
            AcquireMode::Reenter { .. } => script_reply::in_full(reply, "reentered", &[]),
        },
        Operation::Renew(_) => script_reply::in_full(reply, "renewed", &[]),
        Operation::Release(_) => script_reply::in_full(reply, "released", &[0]),
    }
}

/// Returns the cluster slot of the lock.
pub(crate) fn slot(operation: &Operation) -> u16 {
    slot_of(operation.name().as_str())
}

fn small(number: u32) -> Cow<'static, str> {
    match number {
        0 => Cow::Borrowed("0"),
        number => Cow::Owned(number.to_string()),
    }
}

/// Formats a duration in ms, at least 1, because 0 is not a valid expiry.
pub(crate) fn millis(d: Duration) -> String {
    // Dividing 128 bits by 10 for each digit would take several times as long.
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX).max(1).to_string()
}

pub(super) fn lease(id: LeaseId) -> Cow<'static, str> {
    /// A UUID, a colon, and a number of up to 19 digits.
    const MAX: usize = 36 + 1 + 19;
    let mut text = String::with_capacity(MAX);
    let _ = write!(text, "{id}");
    Cow::Owned(text)
}

/// Returns `true` if an operation is still worth sending after waiting this long: its caller is still waiting, and its
/// `not_after` time has not passed.
///
/// An operation that was late from the start is sent, because the reply reports the server's clock.
pub(crate) fn is_worth_sending(submission: &Submission, server: Option<UtcTime>, waited: Duration) -> bool {
    let late = || Some(server?.as_micros().saturating_sub(submission.operation().not_after()?.as_micros()));
    let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
    submission.is_wanted() && late().is_none_or(|late| late == 0 || late >= waited)
}

/// Completes an operation with the reply of its script. The completion runs code of other crates. A
/// panic in it does not affect the next operation.
pub(crate) fn complete(submission: Submission, reply: Result<ScriptReply, RequestError>) {
    let outcome = reply.and_then(|reply| match submission.operation() {
        Operation::Acquire(request) => Ok(match request.mode {
            AcquireMode::New { .. } | AcquireMode::Permit(_) => reply.acquired()?.map(Outcome::from),
            AcquireMode::Reenter { .. } => reply.reentered()?.map(Outcome::from),
        }),
        Operation::Renew(_) => Ok(reply.renewed()?.map(Outcome::from)),
        Operation::Release(_) => Ok(reply.released()?.map(Outcome::from)),
    });
    contained(|| submission.complete(outcome.map_err(BackendError::from)));
}

/// Fails operations that were not sent, because their callers are gone or their `not_after` time has passed.
pub(crate) fn leave_out(submissions: Vec<Submission>) {
    for submission in submissions {
        let error = overdue(what(submission.operation()));
        fail(submission, error);
    }
}

/// Fails an operation.
pub(crate) fn fail(submission: Submission, error: RequestError) {
    contained(|| submission.complete(Err(error.into())));
}

pub(super) fn contained(run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::error!("panic while processing an operation");
    }
}

/// The operations of one call. Dropping it completes each of them with an unknown outcome.
pub(crate) struct Submissions(Vec<Submission>);

impl Submissions {
    pub(crate) fn new(submissions: Vec<Submission>) -> Self {
        Self(submissions)
    }

    pub(crate) fn as_slice(&self) -> &[Submission] {
        &self.0
    }

    /// Sorts the operations by those that one script can carry out; those of one name keep their order.
    pub(super) fn sort_by_script(&mut self, together: impl Fn(&Operation) -> (u16, bool)) {
        self.0.sort_by_cached_key(|submission| together(submission.operation()));
    }

    pub(crate) fn take(&mut self) -> Vec<Submission> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Submissions {
    fn drop(&mut self) {
        for submission in self.take() {
            contained(|| drop(submission));
        }
    }
}
