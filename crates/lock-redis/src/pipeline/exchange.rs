//! One call to the server: a script for one operation, or the batch for several, and what it answers to each.

use super::operation::{Operations, function, keys, script, slot, what, write_arguments, write_keys};
use crate::{
    client::{Client, Reply},
    connection::{Asking, Dialled},
    error::{RequestError, Unanswered, unexpected_reply, unsupported},
    script::{BATCH, Words},
    script_reply::{self, ScriptReply},
    shared::Shared,
};
use futures_util::future::join_all;
use lock_core::backend::Operation;
use std::borrow::Cow;
use tokio::time::Instant;

/// An operation, and the reply to it.
pub(super) type Answered = (Operation, Result<ScriptReply, RequestError>);

/// Sends the operations in one call at the first poll. Dropped, each of them is answered as unknown.
pub(super) async fn exchange<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    mut operations: Operations,
) -> Vec<Answered> {
    let replies = match operations.as_slice() {
        [operation] => vec![alone(shared, dialled, operation, Asking::No).await],
        several if shared.cluster.is_none() => together(shared, dialled, several).await,
        _ => {
            // A script has keys of one slot. What goes to one node is sent at once all the same.
            operations.sort_by_slot();
            let slots = operations.as_slice().chunk_by(|a, b| slot(a) == slot(b));
            let replies = slots.map(async |operations| match operations {
                [operation] => vec![alone(shared, dialled, operation, Asking::No).await],
                several => together(shared, dialled, several).await,
            });
            join_all(replies).await.into_iter().flatten().collect()
        }
    };
    let answered: Vec<Answered> = operations.take().into_iter().zip(replies).collect();
    for (operation, reply) in &answered {
        if let (Operation::Acquire(request, _), Ok(reply)) = (operation, reply) {
            shared.warn_of_foreign_counter(&request.name, reply);
        }
    }
    answered
}

/// An operation by its own script.
pub(crate) async fn alone<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    operation: &Operation,
    asking: Asking,
) -> Result<ScriptReply, RequestError> {
    let script = script(operation).ok_or_else(unsupported)?;
    let write = |words: &mut Words| {
        write_keys(operation, words);
        write_arguments(operation, shared.retention, shared.pubsub, words);
    };
    let sent = Instant::now();
    let reply = script.run(dialled, asking, keys(operation), write).await;
    let reply = reply.map_err(|error| error.during(script.name));
    let reply = reply.and_then(|reply| ScriptReply::read(script.name, reply));
    shared.observe(sent, std::slice::from_ref(&reply));
    reply
}

/// Several operations by the script of a batch.
async fn together<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    operations: &[Operation],
) -> Vec<Result<ScriptReply, RequestError>> {
    let sent = Instant::now();
    let answer = batch(shared, dialled, operations).await;
    let whats = || operations.iter().map(what);
    let replies = match answer {
        Ok(reply) => script_reply::batch(&whats().collect::<Vec<_>>(), reply)
            .unwrap_or_else(|| whats().map(|what| Err(unexpected_reply(what))).collect()),
        // The server looks at rights, at its role and its memory before a script runs. What is refused for one operation
        // may be served for another.
        Err(error) if error.is_refusal() => {
            shared.observe(sent, &[Err(error.during(BATCH.name))]);
            return join_all(
                operations.iter().map(|operation| alone(shared, dialled, operation, Asking::No)),
            )
            .await;
        }
        Err(error) => whats().map(|what| Err(error.during(what))).collect(),
    };
    shared.observe(sent, &replies);
    replies
}

async fn batch<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    operations: &[Operation],
) -> Result<Reply, Unanswered> {
    let write = |words: &mut Words| {
        operations.iter().for_each(|operation| write_keys(operation, words));
        for operation in operations {
            words.push(Cow::Borrowed(function(operation)));
            write_arguments(operation, shared.retention, shared.pubsub, words);
        }
    };
    BATCH.run(dialled, Asking::No, operations.iter().map(keys).sum(), write).await
}
