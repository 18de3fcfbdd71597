//! Internals exposed to fuzzers and trials.

use crate::{
    client::Reply,
    error::RequestError,
    keys::Keys,
    script,
    script_reply::{self, ScriptReply},
};
use lock_core::{LockName, backend::BackendError};

/// Returns the keys of the lock and its counter, and its channel.
#[must_use]
pub fn keys(name: &LockName) -> [String; 3] {
    let Keys { lock, counter, channel } = Keys::of(name);
    [lock, counter, channel]
}

/// Returns the words that identify an acquire, a renewal, and the two kinds of release in a proxy: the hashes of the
/// scripts, and a command.
#[must_use]
pub fn marks() -> [&'static str; 4] {
    [script::ACQUIRE.hash(), script::RENEW.hash(), script::RELEASE.hash(), "HDEL"]
}

/// Reads a reply in every possible way and returns the errors.
#[must_use]
pub fn read(reply: Reply, batched: usize) -> Vec<BackendError> {
    fn failure<T>(answer: Result<T, RequestError>) -> Option<BackendError> {
        answer.err().map(BackendError::from)
    }
    let script_reply = || ScriptReply::read("fuzz", reply.clone());
    let mut failures = vec![
        failure(script_reply().and_then(ScriptReply::acquired)),
        failure(script_reply().and_then(ScriptReply::released)),
        failure(script_reply().and_then(ScriptReply::inspected)),
        failure(script_reply().and_then(ScriptReply::forced)),
        failure(script_reply().and_then(ScriptReply::probed)),
    ];
    failures.push(failure(script_reply().and_then(ScriptReply::renewed)));
    failures.push(failure(script_reply().and_then(ScriptReply::vote)));
    failures.push(failure(script_reply().and_then(ScriptReply::healed)));
    for answer in script_reply().and_then(|reply| reply.extended(batched)).into_iter().flatten() {
        failures.push(failure(answer));
    }
    for part in script_reply::batch(batched, reply.clone()).into_iter().flatten() {
        failures.push(failure(ScriptReply::read("fuzz", part).and_then(ScriptReply::acquired)));
    }
    failures.into_iter().flatten().collect()
}
