//! One call to the server: for one operation its script or the commands in place of it, for several the batch script.
//!
//! The usual release is two plain commands. `HDEL` frees the lock, since the key is deleted with its last field, and
//! `PUBLISH` then wakes the waiters. Together they cost the server less than the script that does the same. They also
//! shorten a hand-over: Redis replies first to the client that was added to its list last, and a script adds the
//! waiters before the client that called it. If Redis reads both commands at once, `HDEL` adds that client before
//! `PUBLISH` adds the waiters, whose messages leave first.
//!
//! The two are not atomic, and need not be. A waiter that is woken while another one holds the lock waits again. If the
//! process ends between the commands, waiters ask again as they do after any message that was lost.

use super::operation::{
    Submissions, function, in_full, keys as number_of_keys, lease, script, slot, what, write_arguments,
    write_keys,
};
use crate::{
    client::{Client, Command, Connection, PubSub, Reply},
    cluster::Redirection,
    connection::{Delivered, Delivery, Dialled},
    error::{RequestError, Unanswered, not_woken, unexpected_reply},
    keys::{self, Keys},
    script::{BATCH, PERMITS, PROBE, RELEASE, Words},
    script_reply::{self, ScriptReply},
    shared::{Releases, Shared},
};
use futures_util::future::{join, join_all};
use lock_core::{
    LockName,
    backend::{BackendErrorKind, NotifyWaiters, Operation, Submission},
    clock::UtcTime,
};
use std::{borrow::Cow, pin::pin, slice, sync::atomic::Ordering, time::Duration};
use tokio::time::Instant;

/// An operation and its reply.
pub(super) type Answered = (Submission, Result<ScriptReply, RequestError>);

/// Sends the operations in one call at the first poll. Dropping the future completes each with an
/// unknown outcome.
pub(super) async fn exchange<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    mut submissions: Submissions,
) -> Vec<Answered> {
    let replies = match submissions.as_slice() {
        [submission] => {
            let operation = submission.operation();
            vec![alone(shared, dialled, operation, delivery_of(shared, [operation])).await]
        }
        several if shared.cluster.is_none() && !several.iter().any(is_for_a_pool) => {
            together(shared, dialled, several).await
        }
        _ => {
            // Pools have a script of their own, and the keys of a script must share one slot. All scripts for one node
            // are still sent together.
            let is_node = shared.cluster.is_some();
            let script = |operation: &Operation| {
                (if is_node { slot(operation) } else { 0 }, operation.name().is_pool())
            };
            submissions.sort_by_script(script);
            let parts =
                submissions.as_slice().chunk_by(|a, b| script(a.operation()) == script(b.operation()));
            let replies = parts.map(async |submissions| match submissions {
                [one] => {
                    let delivery =
                        if is_node { Delivery::Plain } else { delivery_of(shared, [one.operation()]) };
                    vec![alone(shared, dialled, one.operation(), delivery).await]
                }
                several => together(shared, dialled, several).await,
            });
            join_all(replies).await.into_iter().flatten().collect()
        }
    };
    let answered: Vec<Answered> = submissions.take().into_iter().zip(replies).collect();
    for (submission, reply) in &answered {
        if let (Operation::Acquire(request), Ok(reply)) = (submission.operation(), reply) {
            shared.warn_of_foreign_counter(&request.name, reply);
        }
    }
    answered
}

/// Carries out a single operation: a release by plain commands if they are enough, and any other with its own script.
pub(crate) async fn alone<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    operation: &Operation,
    delivery: Delivery,
) -> Result<ScriptReply, RequestError> {
    if operation.name().is_pool() {
        // Boxed, since a batch that is refused runs its operations alone.
        let replies = Box::pin(batch(shared, dialled, &[operation], delivery)).await;
        return replies.into_iter().next().unwrap_or_else(|| Err(unexpected_reply(what(operation))));
    }
    if delivery == Delivery::Plain
        && let Some(reply) = release(shared, dialled, operation).await
    {
        return reply;
    }
    let script = script(operation);
    let write = |words: &mut Words| {
        write_keys(operation, words);
        write_arguments(operation, shared.rules.retention, words);
        if matches!(operation, Operation::Release(_)) && shared.pubsub == PubSub::Sharded {
            words.push(Cow::Borrowed(Keys::sharded(shared.pubsub)));
        }
    };
    let sent = Instant::now();
    let answer = script.run(dialled, delivery, number_of_keys(operation), write).await;
    let answer = answer.map_err(|error| error.during(script.name));
    let reply = answer.and_then(|Delivered { reply, is_acknowledged }| {
        shared.accepted(dialled.read(script.name, sent, in_full(operation, reply))?, is_acknowledged)
    });
    shared.observe(sent, slice::from_ref(&reply));
    reply
}

fn is_for_a_pool(submission: &Submission) -> bool {
    submission.operation().name().is_pool()
}

/// Runs several operations with the batch script, or that of pools.
async fn together<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    submissions: &[Submission],
) -> Vec<Result<ScriptReply, RequestError>> {
    let operations: Vec<_> = submissions.iter().map(Submission::operation).collect();
    let delivery = delivery_of(shared, operations.iter().copied());
    batch(shared, dialled, &operations, delivery).await
}

async fn batch<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    operations: &[&Operation],
    delivery: Delivery,
) -> Vec<Result<ScriptReply, RequestError>> {
    if operations.iter().any(|operation| operation.name().is_pool())
        && let Err(error) = probe_pools(shared, dialled, operations[0].name()).await
    {
        return operations.iter().map(|_| Err(error.clone())).collect();
    }
    let sent = Instant::now();
    let answer = run_batch(shared, dialled, operations, delivery).await;
    let operations = || operations.iter().copied();
    let whats = || operations().map(what);
    let replies: Vec<_> = match answer {
        Ok(Delivered { reply, is_acknowledged }) => match script_reply::batch(operations().len(), reply) {
            Some(replies) => {
                let accepted = |(operation, reply)| {
                    let reply = dialled.read(what(operation), sent, in_full(operation, reply))?;
                    shared.accepted(reply, is_acknowledged)
                };
                operations().zip(replies).map(accepted).collect()
            }
            None => {
                dialled.trust.lose("unexpected reply");
                whats().map(|what| Err(unexpected_reply(what))).collect()
            }
        },
        // The server checks permissions, role and memory before it runs a script. If a batch is refused because of one
        // operation, the others may still succeed.
        Err(error) if error.is_refusal() && operations().len() > 1 => {
            shared.observe(sent, &[Err(error.during(BATCH.name))]);
            let each = operations().map(async |operation| {
                alone(shared, dialled, operation, delivery_of(shared, [operation])).await
            });
            return join_all(each).await;
        }
        Err(error) => whats().map(|what| Err(error.during(what))).collect(),
    };
    shared.observe(sent, &replies);
    replies
}

/// Tries the commands that pools need, once per server, so that their script does not fail midway. Locks need fewer.
async fn probe_pools<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    name: &LockName,
) -> Result<(), RequestError> {
    if shared.pools_probed.load(Ordering::Relaxed) {
        return Ok(());
    }
    let write = |words: &mut Words| {
        words.extend(keys::pool_probe(name).map(Cow::Owned));
        let sharded = Keys::sharded(shared.pubsub);
        // A channel of its own: this wakes nobody.
        let channel = keys::channel(name) + ":probe";
        words.extend([Cow::Owned(channel), Cow::Borrowed("permits"), Cow::Borrowed(sharded)]);
    };
    let sent = Instant::now();
    let answer = PROBE.run(dialled, Delivery::Plain, 2, write).await;
    let Delivered { reply, .. } = answer.map_err(|error| error.during(PROBE.name))?;
    dialled.read(PROBE.name, sent, reply)?.probed()?;
    shared.pools_probed.store(true, Ordering::Relaxed);
    Ok(())
}

async fn run_batch<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    operations: &[&Operation],
    delivery: Delivery,
) -> Result<Delivered, Unanswered> {
    let operations = || operations.iter().copied();
    let script = if operations().any(|operation| operation.name().is_pool()) { &PERMITS } else { &BATCH };
    let write = |words: &mut Words| {
        operations().for_each(|operation| write_keys(operation, words));
        words.push(Cow::Borrowed(Keys::sharded(shared.pubsub)));
        for operation in operations() {
            words.push(Cow::Borrowed(function(operation)));
            write_arguments(operation, shared.rules.retention, words);
        }
    };
    script.run(dialled, delivery, operations().map(number_of_keys).sum(), write).await
}

/// The time allowed for replicas while the server's clock is unknown.
const UNKNOWN_CLOCK: Duration = Duration::from_millis(500);
/// The maximum time allowed for replicas: a connection without a reply for 2 s counts as dead.
const MAX_WAIT: Duration = Duration::from_millis(1_500);

/// Returns the delivery. Replicas acknowledge operations that grant or extend a lease, within half of the operation's
/// remaining time.
fn delivery_of<'a, C: Client>(
    shared: &Shared<C>,
    operations: impl IntoIterator<Item = &'a Operation>,
) -> Delivery {
    let Some(replicas) = shared.replicas else { return Delivery::Plain };
    let until = operations.into_iter().filter_map(Operation::not_after).min();
    let Some(until) = until else { return Delivery::Plain };
    let within = match shared.clock.now() {
        Some(now) => Duration::from_micros(until.as_micros().saturating_sub(now.as_micros())) / 2,
        None => UNKNOWN_CLOCK,
    };
    Delivery::Acknowledged { replicas, within: within.min(MAX_WAIT) }
}

/// Frees the lock if the operation is its release, and wakes the waiters.
///
/// Returns `None` if the script must be used: for all other operations; if the backend is set to use it; while the
/// server's clock is unknown, since the replies have no time; and to say why the lease was not found.
async fn release<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    operation: &Operation,
) -> Option<Result<ScriptReply, RequestError>> {
    let Operation::Release(request) = operation else { return None };
    let by_script = shared.rules.releases == Releases::ByScript;
    if by_script || request.depth_left > 0 || request.notify != NotifyWaiters::EvenIfGone {
        return None;
    }
    let now = dialled.trust.now()?;
    let free = Command::hdel(request.name.as_str().to_owned(), lease(request.lease));
    let wake = Command::wake(shared.pubsub, keys::channel(&request.name));
    // `join` polls them in this order, and the first poll sends.
    let (free, wake) = (pin!(dialled.call(free)), pin!(dialled.call(wake)));
    let reply = match join(free, wake).await {
        (Ok(Reply::Integer(1)), woken) => freed(dialled, now, woken),
        (Ok(Reply::Integer(0)), _) => return None,
        (Ok(_), _) => Err(out_of_step(dialled)),
        (Err(error), _) => match error.during(RELEASE.name) {
            // The key holds something else, so the lease is gone.
            error if error.kind() == BackendErrorKind::WrongType => return None,
            error => Err(error),
        },
    };
    shared.observe_errors(slice::from_ref(&reply));
    Some(reply)
}

/// Returns the reply of the script for a lock that was freed.
fn freed<T: Connection>(
    dialled: &Dialled<T>,
    now: UtcTime,
    woken: Result<Reply, Unanswered>,
) -> Result<ScriptReply, RequestError> {
    let released = |listeners| {
        let now = Reply::Integer(now.as_micros().cast_signed());
        dialled.read(RELEASE.name, Instant::now(), script_reply::in_full(now, "released", &[listeners]))
    };
    match woken {
        Ok(Reply::Integer(number)) if (0..=u32::MAX.into()).contains(&number) => released(number),
        Ok(_) => Err(out_of_step(dialled)),
        Err(error) => match error.during(RELEASE.name).redirection() {
            // The slot moved just now. The subscriptions move with it, and then the waiters ask.
            Some(Redirection::Moved { .. }) => released(-1),
            _ => Err(not_woken(RELEASE.name, &error)),
        },
    }
}

/// Ends a connection whose reply does not fit its command.
fn out_of_step<T: Connection>(dialled: &Dialled<T>) -> RequestError {
    dialled.trust.lose("unexpected reply");
    unexpected_reply(RELEASE.name)
}
