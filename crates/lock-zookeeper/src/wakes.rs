//! Wake-ups: a watch for each name for which somebody waits, on the node of its owner.
//!
//! Each watch is for one event, and is made again after it, and on each new connection. An event in between is not
//! missed: a watch that finds no owner wakes.

use crate::{connection::Connection, error::failed};
use async_trait::async_trait;
use lock_core::{
    __private::lock,
    LockName,
    backend::{Applied, BackendError, BackendErrorKind, SubscriberId, Subscriptions, WakeListener},
};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};
use zookeeper_client::EventType;

/// The pause before the next attempt to watch.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// The time limit for the answer to a subscription.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Wakes {
    connection: Arc<Connection>,
    watched: Mutex<HashMap<LockName, Watched>>,
}

/// A name that is watched by a task, until this is dropped.
#[derive(Debug)]
struct Watched {
    /// The server has acknowledged the watch, which has had no event.
    is_armed: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wakes {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self { connection, watched: Mutex::default() }
    }
}

#[async_trait]
impl Subscriptions for Wakes {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        let watchers = &self.connection.watchers;
        watchers.forget_gone();
        {
            // Locked first: a name is subscribed before it is watched.
            let mut watched = lock(&self.watched);
            let names: HashSet<_> = watchers.names().into_iter().collect();
            watched.retain(|name, _| names.contains(name));
        }
        watchers.register_listener(listener)
    }

    /// Must be called in the runtime of the connection.
    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.connection.watchers.subscribe(subscriber, name.clone());
        let mut is_armed = {
            let mut watched = lock(&self.watched);
            let watched = watched.entry(name.clone()).or_insert_with(|| {
                let (arms, is_armed) = watch::channel(false);
                let task = tokio::spawn(watch_owner(self.connection.clone(), name, arms));
                Watched { is_armed, task: task.abort_handle() }
            });
            watched.is_armed.clone()
        };
        match timeout(ANSWERS_WITHIN, is_armed.wait_for(|is_armed| *is_armed)).await {
            Ok(Ok(_)) => Ok(()),
            _ => {
                let message = "ZooKeeper has not acknowledged a watch in time";
                Err(BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message))
            }
        }
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        // No other subscription comes in between.
        let mut watched = lock(&self.watched);
        if self.connection.watchers.unsubscribe(subscriber, &name) {
            watched.remove(&name);
        }
        Ok(())
    }
}

/// Watches the owner of a lock, for ever.
async fn watch_owner(connection: Arc<Connection>, name: LockName, arms: watch::Sender<bool>) {
    let (path, watchers) = (connection.owner(&name), &connection.watchers);
    // The last event was a deletion; an earlier watch may have missed one.
    let (mut was_deleted, mut is_stale) = (false, false);
    loop {
        let mut stages = connection.stages();
        let client = connection.client().await;
        stages.mark_unchanged();
        // It is sent now, before the requests of the waiters, and the server executes them in this order.
        let asked = client.as_ref().map(|client| client.check_and_watch_stat(&path));
        let is_woken = std::mem::take(&mut was_deleted);
        if is_woken {
            watchers.released(&name);
        }
        let watched = match asked {
            Ok(asked) => asked.await.map_err(|error| failed("watch a lock", error)),
            Err(error) => Err(error.clone()),
        };
        match watched {
            Ok((owner, event)) => {
                if is_stale && owner.is_none() && !is_woken {
                    watchers.released(&name);
                }
                arms.send_replace(true);
                was_deleted = tokio::select! {
                    biased;
                    // The client ends, and its watches with it.
                    _ = stages.changed() => false,
                    event = event.changed() => event.event_type == EventType::NodeDeleted,
                };
                arms.send_replace(false);
                is_stale = !was_deleted;
            }
            Err(error) => {
                is_stale = true;
                tracing::debug!(%error, "failed to watch a lock");
                sleep(RETRY_AFTER).await;
            }
        }
    }
}
