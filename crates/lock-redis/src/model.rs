//! Internals exposed to fuzzers and trials.

use crate::{
    client::Reply,
    clock::Trust,
    error::RequestError,
    keys::Keys,
    pipeline::in_full,
    script,
    script_reply::{self, ScriptReply},
};
use lock_core::{
    LockName,
    backend::{BackendError, Submission},
    clock::UtcTime,
};
use std::sync::Arc;
use tokio::time::Instant;

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
    fn decoded(reply: Reply) -> Result<ScriptReply, RequestError> {
        ScriptReply::read("fuzz", reply, &Arc::default(), Instant::now())
    }
    let script_reply = || decoded(reply.clone());
    let mut failures = vec![
        failure(script_reply().and_then(ScriptReply::acquired)),
        failure(script_reply().and_then(ScriptReply::reentered)),
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
        failures.push(failure(decoded(part).and_then(ScriptReply::acquired)));
    }
    failures.into_iter().flatten().collect()
}

/// Reads a reply to an operation over a connection whose server had this time just before, and completes the operation.
pub fn answer(submission: Submission, reply: Reply, server: UtcTime) {
    let (trust, now) = (Arc::<Trust>::default(), Instant::now());
    trust.believes(now, server);
    let reply = ScriptReply::read("fuzz", in_full(submission.operation(), reply), &trust, now);
    crate::pipeline::complete(submission, reply);
}

/// Reads a reply to a proposal over such a connection. Returns `true` if it is a vote for it.
#[must_use]
pub fn is_vote(reply: Reply, server: UtcTime) -> bool {
    use lock_quorum::Vote;
    let (trust, now) = (Arc::<Trust>::default(), Instant::now());
    trust.believes(now, server);
    let reply = script_reply::in_full(reply, "granted", &[0]);
    let vote = ScriptReply::read("fuzz", reply, &trust, now).and_then(ScriptReply::vote);
    vote.is_ok_and(|vote| vote.outcome == Vote::Granted)
}
