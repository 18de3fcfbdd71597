//! Translation of an operation into the keys and arguments of its script, and of the script's reply
//! into the operation's result.

use crate::{
    client::Reply as RawReply,
    cluster::slot_of,
    error::{RequestError, overdue, unsupported},
    keys,
    script::{self, Script, Words},
    script_reply::{self, ScriptReply},
};
use lock_core::{
    LockName,
    backend::{AcquireMode, BackendError, LeaseId, NotifyWaiters, Operation, Reply},
    clock::UtcTime,
};
use std::{
    borrow::Cow,
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// Returns the script of an operation, or `None` if a single server does not support it.
pub(super) fn script(operation: &Operation) -> Option<&'static Script> {
    match operation {
        Operation::Acquire(request, _) => match request.mode {
            AcquireMode::New { .. } => Some(&script::ACQUIRE),
            AcquireMode::Reenter { .. } => Some(&script::REENTER),
            _ => None,
        },
        Operation::Renew(..) => Some(&script::RENEW),
        Operation::Release(..) => Some(&script::RELEASE),
        _ => None,
    }
}

/// Returns the function of the batch script that executes the operation.
pub(super) fn function(operation: &Operation) -> &'static str {
    match operation {
        Operation::Acquire(request, _) => match request.mode {
            AcquireMode::New { reserve: 0, floor: None } => "acquire",
            AcquireMode::New { .. } => "reserve",
            _ => "reenter",
        },
        Operation::Renew(..) => "renew",
        _ => "release",
    }
}

/// Returns the phrase that names the operation in errors.
pub(crate) fn what(operation: &Operation) -> &'static str {
    script(operation).map_or("acquire a lock", |script| script.name)
}

/// Returns the number of keys of the operation.
pub(super) fn keys(operation: &Operation) -> usize {
    match operation {
        Operation::Acquire(request, _) if matches!(request.mode, AcquireMode::New { .. }) => 2,
        _ => 1,
    }
}

/// Returns the name of the lock.
pub(crate) fn name(operation: &Operation) -> Option<&LockName> {
    match operation {
        Operation::Acquire(request, _) => Some(&request.name),
        Operation::Renew(request, _) => Some(&request.name),
        Operation::Release(request, _) => Some(&request.name),
        _ => None,
    }
}

pub(super) fn write_keys(operation: &Operation, words: &mut Words) {
    let Some(name) = name(operation) else { return };
    words.push(Cow::Owned(name.as_str().to_owned()));
    if keys(operation) == 2 {
        words.push(Cow::Owned(keys::counter(name)));
    }
}

/// Writes the arguments, except the one that indicates whether channels are sharded. `retention` is that of the
/// backend.
pub(super) fn write_arguments(operation: &Operation, retention: Option<Duration>, words: &mut Words) {
    let owned = |text: String| Cow::Owned(text);
    match operation {
        Operation::Acquire(request, _) => {
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
                _ => {}
            }
        }
        Operation::Renew(request, _) => words.extend([
            lease(request.lease),
            owned(millis(request.duration)),
            owned(request.not_after.as_micros().to_string()),
        ]),
        Operation::Release(request, _) => words.extend([
            lease(request.lease),
            small(request.depth_left),
            // An argument, since a channel passed as a key would require permission for a key with its name.
            match request.notify {
                NotifyWaiters::No => Cow::Borrowed(""),
                _ => owned(keys::channel(&request.name)),
            },
        ]),
        _ => {}
    }
}

/// Expands a script reply that contains only the time.
pub(crate) fn in_full(operation: &Operation, reply: RawReply) -> RawReply {
    let RawReply::Integer(now) = reply else { return reply };
    match operation {
        Operation::Acquire(request, _) => match request.mode {
            // With a floor, the tokens follow.
            AcquireMode::New { floor: Some(_), .. } => reply,
            AcquireMode::New { reserve, .. } => {
                let last = now.saturating_add(i64::from(reserve.min(script_reply::MAX_RESERVE)));
                script_reply::in_full(reply, "granted", &[now, last, 0])
            }
            AcquireMode::Reenter { .. } => script_reply::in_full(reply, "reentered", &[]),
            _ => reply,
        },
        Operation::Renew(..) => script_reply::in_full(reply, "renewed", &[]),
        Operation::Release(..) => script_reply::in_full(reply, "released", &[0]),
        _ => reply,
    }
}

/// Returns the cluster slot of the lock.
pub(crate) fn slot(operation: &Operation) -> u16 {
    name(operation).map_or(0, |name| slot_of(name.as_str()))
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

/// Returns the server time after which the operation must not be executed, if it has one.
pub(super) fn not_after(operation: &Operation) -> Option<UtcTime> {
    match operation {
        Operation::Acquire(request, _) => Some(request.not_after),
        Operation::Renew(request, _) => Some(request.not_after),
        _ => None,
    }
}

/// Returns `true` if an operation is still worth sending after waiting this long: its caller is still waiting, and its
/// `not_after` time has not passed.
///
/// An operation that was late from the start is sent, because the reply reports the server's clock.
pub(crate) fn is_worth_sending(operation: &Operation, server: Option<UtcTime>, waited: Duration) -> bool {
    let late = || Some(server?.as_micros().saturating_sub(not_after(operation)?.as_micros()));
    let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
    operation.is_wanted() && late().is_none_or(|late| late == 0 || late >= waited)
}

/// Completes an operation with the reply of its script. The completion runs code of other crates. A
/// panic in it does not affect the next operation.
pub(crate) fn complete(operation: Operation, reply: Result<ScriptReply, RequestError>) {
    fn answer<T>(
        reply: Result<ScriptReply, RequestError>,
        read: fn(ScriptReply) -> Result<Reply<T>, RequestError>,
    ) -> Result<Reply<T>, BackendError> {
        Ok(reply.and_then(read)?)
    }
    contained(|| match operation {
        Operation::Acquire(request, completion) => {
            let read = match request.mode {
                AcquireMode::New { .. } => ScriptReply::acquired,
                _ => ScriptReply::reentered,
            };
            completion.complete(answer(reply, read));
        }
        Operation::Renew(_, completion) => completion.complete(answer(reply, ScriptReply::renewed)),
        Operation::Release(_, completion) => completion.complete(answer(reply, ScriptReply::released)),
        other => other.fail(unsupported().into()),
    });
}

/// Fails operations that were not sent, because their callers are gone or their `not_after` time has passed.
pub(crate) fn leave_out(operations: Vec<Operation>) {
    for operation in operations {
        let error = overdue(what(&operation));
        fail(operation, error);
    }
}

/// Fails an operation.
pub(crate) fn fail(operation: Operation, error: RequestError) {
    contained(|| operation.fail(error.into()));
}

pub(super) fn contained(run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::error!("panic while processing an operation");
    }
}

/// The operations of one call. Dropping it completes each of them with an unknown outcome.
pub(crate) struct Operations(Vec<Operation>);

impl Operations {
    pub(crate) fn new(operations: Vec<Operation>) -> Self {
        Self(operations)
    }

    pub(crate) fn as_slice(&self) -> &[Operation] {
        &self.0
    }

    /// Sorts the operations by slot; those of one lock keep their order.
    pub(super) fn sort_by_slot(&mut self) {
        self.0.sort_by_cached_key(slot);
    }

    pub(crate) fn take(&mut self) -> Vec<Operation> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        for operation in self.take() {
            contained(|| drop(operation));
        }
    }
}
