//! Supervision of a connection: when to give it up, and when to dial the next one.

use super::{Current, Dialer, Dialled, NO_ANSWER_AFTER, Outage, Purpose, ReplaceReason};
use crate::{
    client::{Client, Command, printable},
    pauses::{Pauses, between, jittered},
};
use lock_core::backend::BackendError;
use std::{convert::Infallible, future, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

/// The bounds of the random pause between the end of a connection and the next dial, and between two failed dials. If a
/// server returns when a third of a short lease remains, it must be found in time for a renewal.
const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(150), Duration::from_millis(250));
/// The maximum pause after the server refuses a dial. A retry cannot succeed until the login or the server is changed.
const REFUSED_DIAL_PAUSE: Duration = Duration::from_secs(1);
/// The pauses between two replacements of open connections. The address may lead to a replica for a
/// long time. Requests still reach the replica between replacements, so holders notice if it is
/// promoted.
const REPLACEMENTS: Pauses = Pauses::new(Duration::from_millis(200), Duration::from_secs(2));
/// The interval of pings. NATs and firewalls silently forget quiet connections.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Watches the current connection, and dials the next one, forever.
pub(super) struct Supervisor<C: Client> {
    pub(super) dialer: Arc<Dialer<C>>,
    pub(super) purpose: Purpose,
    pub(super) current: watch::Sender<Current<C>>,
    pub(super) outage: Arc<Outage>,
}

/// The reason why a connection is given up.
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
        // The first replacement is immediate.
        let (mut replaced_at, mut replaceable_at) = (None::<Instant>, Instant::now());
        loop {
            let reason = self.watch(&dialled, replaceable_at).await;
            let asked_at = Instant::now();
            self.outage.begin(log(&reason, &dialled));
            // From here on, requests wait for the next connection.
            self.current.send_replace(None);
            if let Some(lost) = &self.dialer.lost {
                lost.notify_one();
            }
            // A server that became a replica may still answer requests in progress during this
            // pause.
            sleep(reconnect_pause()).await;
            let _ = dialled.end.set("replaced by another connection".to_owned());
            drop(dialled);
            dialled = Arc::new(self.dial_until_connected().await);
            if !matches!(reason, Reason::Ended(_)) {
                if !replaced_at.is_some_and(|before| pauses.belong_together(asked_at - before)) {
                    pauses.start_over();
                }
                let now = Instant::now();
                // Give the server behind the address some time to become a master.
                (replaced_at, replaceable_at) = (Some(now), now + pauses.next());
            }
            tracing::info!(server = %dialled.server, "reconnected to redis");
            self.current.send_replace(Some(dialled.clone()));
        }
    }

    /// Returns once the connection has ended, or must be replaced and may be.
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

    /// Pings at regular intervals. The reply does not matter, since `Liveness` detects a missing one.
    async fn keep_alive(&self, dialled: &Dialled<C::Connection>) -> Infallible {
        match self.purpose {
            Purpose::Requests => loop {
                sleep(KEEP_ALIVE).await;
                let _ = timeout(NO_ANSWER_AFTER, dialled.call(Command::ping())).await;
            },
            Purpose::Messages(_) => future::pending().await,
        }
    }

    /// Dials until a connection is open. A refused login may be corrected while the program is running.
    async fn dial_until_connected(&self) -> Dialled<C::Connection> {
        let mut failures = FailedDials::default();
        loop {
            match self.dialer.dial(&self.purpose).await {
                Ok(dialled) => return dialled,
                Err(error) => sleep(failures.add(&error, &self.outage)).await,
            }
        }
    }
}

/// The consecutive failures of a dial that is repeated.
#[derive(Default)]
pub(crate) struct FailedDials {
    logged: String,
}

impl FailedDials {
    /// Records a failure, and returns the pause before the next dial.
    pub(crate) fn add(&mut self, error: &BackendError, outage: &Outage) -> Duration {
        let text = error.to_string();
        outage.goes_on(text.clone());
        // Warn only if the error differs from the previous one, however long the outage lasts.
        if self.logged == text {
            tracing::debug!(%error, "still failing to connect to redis, retrying");
        } else {
            tracing::warn!(%error, "failed to connect to redis, retrying");
            self.logged = text;
        }
        if error.is_retryable() { reconnect_pause() } else { jittered(REFUSED_DIAL_PAUSE) }
    }
}

fn reconnect_pause() -> Duration {
    let (min, max) = RECONNECT_PAUSE;
    between(min, max)
}

/// Logs the end of a connection, and returns its reason.
fn log<T>(reason: &Reason, dialled: &Dialled<T>) -> String {
    match reason {
        Reason::Ended(reason) => {
            let reason = printable(&dialled.secrets.hide(reason.clone()));
            tracing::warn!(reason, "redis connection lost, reconnecting");
            format!("the connection was lost: {reason}")
        }
        Reason::Unresponsive => {
            tracing::warn!("redis connection unresponsive, reconnecting");
            "the server did not reply".to_owned()
        }
        Reason::Replaced(ReplaceReason::ReadOnly) => {
            tracing::warn!("redis server became read-only, reconnecting");
            "the server became read-only".to_owned()
        }
        Reason::Replaced(ReplaceReason::NotMaster) => {
            tracing::warn!("redis sentinels report a different master, reconnecting");
            "the sentinels report a different master".to_owned()
        }
        Reason::Replaced(ReplaceReason::SubscriptionFailed) => {
            tracing::warn!("redis subscription failed, reconnecting");
            "a subscription failed".to_owned()
        }
    }
}
