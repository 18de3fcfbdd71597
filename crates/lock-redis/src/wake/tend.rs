//! Keeps the connection subscribed to the desired channels, one acknowledged batch at a time.

use super::{Shared, state::Batch};
use crate::{
    client::Client,
    connection::{Current, ManagedConnection, ReplaceReason},
    error::{RequestError, no_answer},
    sync::lock,
};
use lock_core::backend::{BackendError, MissedWakes};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch::{Receiver, error::RecvError},
    time::{sleep, timeout},
};

/// The interval of pings on an idle connection. Merely listening does not reveal a dead connection.
const PING: Duration = Duration::from_secs(5);
/// The time limit of a batch.
const BATCH: Duration = Duration::from_secs(2);
/// The pauses after failed batches.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Runs until the dialling task has ended.
pub(super) async fn run<C: Client>(connection: Arc<ManagedConnection<C>>, shared: Arc<Shared>) {
    let mut changes = connection.changes();
    let mut failures = 0u32;
    let mut logged = String::new();
    let mut missed = false;
    loop {
        let pause = match failures {
            0 => PING,
            _ => PAUSES[0].saturating_mul(1 << failures.min(4)).min(PAUSES[1]),
        };
        let mut fresh = false;
        tokio::select! {
            biased;
            next = next_connection::<C>(&mut changes) => match next {
                Ok(()) => fresh = true,
                Err(_) => return,
            },
            () = shared.changed.notified(), if failures == 0 => {}
            () = sleep(pause) => {}
        }
        if fresh {
            lock(&shared.state).start_over();
        }
        shared.forget_gone();
        let adopted = lock(&shared.state).take_adopted();
        let settled = settle(&connection, &shared, &mut logged).await;
        failures = match settled {
            Settled::Yes => 0,
            Settled::Refused | Settled::No => failures + 1,
        };
        // Messages sent while there is no subscription are lost. A waiter woken before the subscription exists could
        // find the lock taken and then miss its release, so waiters are woken once more afterwards. After a refusal,
        // they are woken only then, because the next connection follows immediately.
        missed |= fresh || failures > 0 || adopted;
        let all_stands = missed && failures == 0;
        if all_stands || failures == 1 && settled == Settled::No {
            missed &= !all_stands;
            shared.wake_all(MissedWakes::Reconnected);
        }
    }
}

/// Returns once there is another connection.
async fn next_connection<C: Client>(changes: &mut Receiver<Current<C>>) -> Result<(), RecvError> {
    loop {
        changes.changed().await?;
        if changes.borrow_and_update().is_some() {
            return Ok(());
        }
    }
}

/// The outcome of the batches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// All desired channels are subscribed to.
    Yes,
    /// The server refused a desired channel. Another connection has been requested.
    Refused,
    /// The connection failed.
    No,
}

/// Sends batches until all desired channels are subscribed to.
async fn settle<C: Client>(
    connection: &ManagedConnection<C>,
    shared: &Shared,
    logged: &mut String,
) -> Settled {
    let mut first = true;
    loop {
        let batch = lock(&shared.state).next_batch();
        if batch == Batch::default() && !first {
            if !std::mem::take(logged).is_empty() {
                tracing::info!("redis wake-ups are available again");
            }
            return Settled::Yes;
        }
        first = false;
        let answer = timeout(BATCH, ask(connection, shared, &batch)).await;
        match answer.unwrap_or_else(|_| Err(no_answer("subscribe"))) {
            Ok(()) => lock(&shared.state).acknowledged(batch),
            Err(error) => {
                let is_moved = error.redirection().is_some();
                if let (true, Some(moved)) = (is_moved, &shared.moved) {
                    moved.notify_one();
                }
                let retryable = is_moved || error.is_retryable();
                log(&error, logged);
                shared.fail(batch, &error);
                // A late reply would be treated as the reply to the next batch.
                connection.replace(ReplaceReason::SubscriptionFailed);
                return if retryable { Settled::No } else { Settled::Refused };
            }
        }
    }
}

/// Sends a batch. An empty one is a ping.
async fn ask<C: Client>(
    connection: &ManagedConnection<C>,
    shared: &Shared,
    batch: &Batch,
) -> Result<(), RequestError> {
    match batch.subscribe.is_empty() && batch.unsubscribe.is_empty() {
        true => connection.ping("subscribe").await,
        false => connection.subscribe(shared.kind, batch.subscribe.clone(), batch.unsubscribe.clone()).await,
    }
}

/// Logs an error as a warning, unless it is the same as the previous one.
fn log(error: &RequestError, logged: &mut String) {
    let is_not_connected = error.is_not_connected();
    let (retryable, error) = (error.is_retryable(), BackendError::from(error.clone()));
    // The text of the former contains its duration.
    let text = if is_not_connected { "not connected".to_owned() } else { error.to_string() };
    if *logged == text {
        tracing::debug!(%error, retryable, "redis wake-ups are still unavailable");
    } else {
        tracing::warn!(%error, retryable, "redis wake-ups are unavailable; waiters poll at least every 5 s");
        *logged = text;
    }
}
