//! When a connection is given up, and when the next one is dialled.

use super::{Current, Dialer, Dialled, NO_ANSWER_AFTER, Purpose, ReplaceReason};
use crate::{
    client::{Client, Command},
    pauses::{Pauses, between, jittered},
};
use std::{convert::Infallible, future, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

/// Between the end of a connection and the dial of the next one, and between two dials that failed, at random within these
/// bounds. A server that comes back when a third of a short lease is left has to be found in time for a renewal.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(150), Duration::from_millis(250));
/// Between two dials that the server refused, at most: somebody has to change the login or the server.
const REFUSED_DIAL_PAUSE: Duration = Duration::from_secs(1);
/// Between two replacements of connections that stand. The address may lead to a replica for long; the requests of
/// holders still get an answer meanwhile, and notice a promotion in place.
const REPLACEMENTS: Pauses = Pauses::new(Duration::from_millis(200), Duration::from_secs(2));
/// Between two signs of life of a connection: NATs and firewalls forget quiet connections, and tell neither side.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Watches the connection that stands, and dials the next one, for ever.
pub(super) struct Supervisor<C: Client> {
    pub(super) dialer: Arc<Dialer<C>>,
    pub(super) purpose: Purpose,
    pub(super) current: watch::Sender<Current<C>>,
}

/// Why a connection is given up.
enum Reason {
    Ended(String),
    Unresponsive,
    Replaced(ReplaceReason),
}

impl<C: Client> Supervisor<C> {
    pub(super) async fn run(self, first: Current<C>) {
        let mut dialled = match first {
            Some(first) => first,
            None => {
                let first = Arc::new(self.dial_until_connected().await);
                self.current.send_replace(Some(first.clone()));
                first
            }
        };
        let mut pauses = REPLACEMENTS;
        // The first replacement is made at once.
        let (mut replaced_at, mut replaceable_at) = (None::<Instant>, Instant::now());
        loop {
            let reason = self.watch(&dialled, replaceable_at).await;
            let asked_at = Instant::now();
            // Requests wait for the next one from here on.
            self.current.send_replace(None);
            if let Some(lost) = &self.dialer.lost {
                lost.notify_one();
            }
            log(&reason, &dialled);
            // Requests under way may still be answered meanwhile: a server that became a replica answers.
            sleep(reconnect_pause()).await;
            let _ = dialled.end.set("another connection takes its place".to_owned());
            drop(dialled);
            dialled = Arc::new(self.dial_until_connected().await);
            if !matches!(reason, Reason::Ended(_)) {
                if !replaced_at.is_some_and(|before| pauses.belong_together(asked_at - before)) {
                    pauses.start_over();
                }
                let now = Instant::now();
                // The server behind the address gets some time to become a master.
                (replaced_at, replaceable_at) = (Some(now), now + pauses.next());
            }
            tracing::info!(server = %dialled.server, "connected to redis again");
            self.current.send_replace(Some(dialled.clone()));
        }
    }

    /// Returns when the connection has ended, or is of no further use and may be replaced.
    async fn watch(&self, dialled: &Dialled<C::Connection>, replaceable_at: Instant) -> Reason {
        let replaced = async {
            let reason = tokio::select! {
                () = dialled.liveness.died() => Reason::Unresponsive,
                reason = dialled.replaced.wait() => Reason::Replaced(*reason),
            };
            sleep_until(replaceable_at).await;
            reason
        };
        tokio::select! {
            biased;
            reason = dialled.end.wait() => Reason::Ended(reason.clone()),
            reason = replaced => reason,
            never = self.keep_alive(dialled) => match never {},
        }
    }

    /// Asks for a sign of life now and then. The answer does not matter: silence is noticed.
    async fn keep_alive(&self, dialled: &Dialled<C::Connection>) -> Infallible {
        match self.purpose {
            Purpose::Requests => loop {
                sleep(KEEP_ALIVE).await;
                let _ = timeout(NO_ANSWER_AFTER, dialled.call(Command::ping())).await;
            },
            Purpose::Messages(_) => future::pending().await,
        }
    }

    /// Tries until a connection stands. A refused login may be mended while the program runs.
    async fn dial_until_connected(&self) -> Dialled<C::Connection> {
        let mut logged = String::new();
        loop {
            let error = match self.dialer.dial(&self.purpose).await {
                Ok(dialled) => return dialled,
                Err(error) => error,
            };
            let text = error.to_string();
            // Once for an outage, however long it is.
            if logged == text {
                tracing::debug!(%error, "redis still not reconnected");
            } else {
                tracing::warn!(%error, "redis not reconnected yet");
                logged = text;
            }
            sleep(if error.is_retryable() { reconnect_pause() } else { jittered(REFUSED_DIAL_PAUSE) }).await;
        }
    }
}

fn reconnect_pause() -> Duration {
    let (min, max) = RECONNECT_PAUSE;
    between(min, max)
}

fn log<T>(reason: &Reason, dialled: &Dialled<T>) {
    match reason {
        Reason::Ended(reason) => {
            let reason = dialled.secrets.hide(reason.clone());
            tracing::warn!(reason, "redis connection lost, reconnecting");
        }
        Reason::Unresponsive => tracing::warn!("redis connection unresponsive, reconnecting"),
        Reason::Replaced(ReplaceReason::ReadOnly) => {
            tracing::warn!("redis server became read-only, reconnecting")
        }
        Reason::Replaced(ReplaceReason::NotMaster) => {
            tracing::warn!("redis sentinels have another master, reconnecting")
        }
        Reason::Replaced(ReplaceReason::SubscriptionFailed) => {
            tracing::warn!("redis subscription failed, reconnecting")
        }
    }
}
