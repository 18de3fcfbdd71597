//! Keeps the subscriber's connection as the desk wants it: in rounds, each acknowledged, one at a time.

use super::{Shared, desk::Round};
use crate::{error::out_of_step, link::Link, sync::lock};
use fred::{
    interfaces::{ClientLike, PubsubInterface},
    types::Value,
};
use lock_core::{BackendError, backend::WakeReason};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::{sleep, timeout},
};

/// How often a quiet connection is asked whether it is still there: one that only listens does not notice that it is
/// dead.
const PING: Duration = Duration::from_secs(5);
/// How long a round may take.
const ROUND: Duration = Duration::from_secs(2);
/// The pauses after rounds that failed.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Goes on until the connection ends for good.
pub(super) async fn run<T: Clone>(shared: Arc<Shared>, mut reconnects: Receiver<T>) {
    let mut failures = 0u32;
    let mut said = String::new();
    let mut missed = false;
    loop {
        let pause = match failures {
            0 => PING,
            _ => PAUSES[0].saturating_mul(1 << failures.min(4)).min(PAUSES[1]),
        };
        let mut fresh = false;
        tokio::select! {
            biased;
            made = reconnects.recv() => match made {
                Ok(_) | Err(RecvError::Lagged(_)) => fresh = true,
                Err(RecvError::Closed) => return,
            },
            () = shared.changed.notified(), if failures == 0 => {}
            () = sleep(pause) => {}
        }
        if fresh {
            lock(&shared.desk).start_over();
        }
        shared.forget_gone();
        let settled = settle(&shared, &mut said).await;
        failures = match settled {
            Settled::Yes => 0,
            Settled::Refused | Settled::No => failures + 1,
        };
        // Messages of the time without a subscription are lost. Woken before it stands again, a waiter could look, find
        // the lock taken, and miss the release that comes then: so once more when it does. (After a refusal, only then:
        // the next connection comes at once.)
        missed |= fresh || failures > 0;
        let all_stands = missed && failures == 0;
        if all_stands || failures == 1 && settled == Settled::No {
            missed &= !all_stands;
            shared.all(WakeReason::Reconnected);
        }
    }
}

/// What became of the rounds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// All is as wanted.
    Yes,
    /// The server does not want something that we want. Another connection was asked for.
    Refused,
    /// The connection did not do its part.
    No,
}

/// Rounds until all is as wanted.
async fn settle(shared: &Shared, said_before: &mut String) -> Settled {
    let mut first = true;
    loop {
        let round = lock(&shared.desk).next_round();
        if round == Round::default() && !first {
            if !std::mem::take(said_before).is_empty() {
                tracing::info!("wake-ups come again");
            }
            return Settled::Yes;
        }
        // An empty round is a sign of life.
        first = false;
        let said = timeout(ROUND, say(&shared.link, &round)).await;
        let said = said.unwrap_or_else(|_| Err(out_of_step("subscribe", "no answer")));
        match said {
            Ok(()) => lock(&shared.desk).acknowledged(round),
            Err(error) => {
                let retryable = error.is_retryable();
                let text = error.to_string();
                // Once for an outage, however long it is.
                if *said_before == text {
                    tracing::debug!(%error, retryable, "still no wake-ups");
                } else {
                    tracing::warn!(%error, retryable, "no wake-ups for now: waiters ask again at least every 5 s");
                    *said_before = text;
                }
                shared.fail(round, &error);
                if shared.link.is_up() {
                    // An answer may still be on its way, and would be taken for that of the next round.
                    shared.link.replace();
                }
                return if retryable { Settled::No } else { Settled::Refused };
            }
        }
    }
}

/// One round. fred keeps no account of the answers to `SUBSCRIBE`: a refusal goes to whatever command is next in line.
/// So a `PING` goes behind it in one piece, and brings either that refusal, or what it was sent with.
pub(super) async fn say(link: &Link, round: &Round) -> Result<(), BackendError> {
    static ROUNDS: AtomicU64 = AtomicU64::new(0);
    let nonce = format!("round {}", ROUNDS.fetch_add(1, Ordering::Relaxed));
    let pipeline = link.client.pipeline();
    let request = async {
        if !round.subscribe.is_empty() {
            pipeline.subscribe(round.subscribe.clone()).await?;
        }
        if !round.unsubscribe.is_empty() {
            pipeline.unsubscribe(round.unsubscribe.clone()).await?;
        }
        pipeline.ping::<()>(Some(nonce.clone())).await?;
        pipeline.last::<Value>().await
    };
    // A connection with subscriptions answers `["pong", what it was sent with]`.
    let echo = match link.ask("subscribe", request).await? {
        Value::Array(mut words) => words.pop().unwrap_or(Value::Null),
        word => word,
    };
    match echo.as_string() {
        Some(echo) if echo == nonce => Ok(()),
        _ => Err(out_of_step("subscribe", "answers do not belong to their requests")),
    }
}
