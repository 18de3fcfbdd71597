//! Wake-ups: one connection and one reader for all names.

use crate::{keys::channel, link::Link, sync::lock};
use fred::{
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::Message,
};
use lock_core::{
    BackendError, LockName,
    backend::{Signals, SubscriberId, WakeReason, Watchers},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    task::JoinHandle,
    time::sleep,
};

/// How often a quiet connection is asked whether it is still there.
const PING: Duration = Duration::from_secs(5);
/// How long a `PING` may take.
const PONG: Duration = Duration::from_secs(2);
/// How many channels one `SUBSCRIBE` names.
const CHANNELS: usize = 1_000;

/// The subscriptions of a backend. Dropping it ends the reader and its connection.
pub(crate) struct Subscriptions {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    link: Link,
    watchers: Watchers,
    /// The names behind the channels that are subscribed to.
    names: Mutex<HashMap<String, LockName>>,
    /// A subscription that overtakes the end of the former one would be undone by it.
    one_at_a_time: tokio::sync::Mutex<()>,
}

impl Subscriptions {
    pub(crate) fn new(link: Link) -> Self {
        let (messages, reconnects) = (link.client.message_rx(), link.client.reconnect_rx());
        let shared = Arc::new(Shared {
            link,
            watchers: Watchers::default(),
            names: Mutex::default(),
            one_at_a_time: tokio::sync::Mutex::default(),
        });
        let tasks = vec![
            tokio::spawn(read(shared.clone(), messages)),
            tokio::spawn(follow_reconnects(shared.clone(), reconnects)),
            tokio::spawn(ping(shared.clone())),
        ];
        Self { shared, tasks }
    }

    pub(crate) fn attach(&self, signals: Weak<dyn Signals>) -> SubscriberId {
        self.shared.watchers.attach(signals)
    }

    /// Whether we may subscribe at all.
    pub(crate) async fn probe(&self, channel: String) -> Result<(), BackendError> {
        let link = &self.shared.link;
        self.shared.queue(vec![channel.clone()]).await?;
        self.shared.acknowledged().await?;
        link.ask("unsubscribe", link.client.unsubscribe(channel)).await
    }

    /// Returns when the server has acknowledged the subscription.
    pub(crate) async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let channel = channel(&name);
        let queued = {
            let _turn = self.shared.one_at_a_time.lock().await;
            // First, so that a message that comes with the acknowledgement finds its name, and a reconnect from here
            // on subscribes to it as well.
            lock(&self.shared.names).insert(channel.clone(), name.clone());
            self.shared.watchers.watch(subscriber, name.clone());
            self.shared.queue(vec![channel]).await
        };
        let done = match queued {
            Ok(()) => self.shared.acknowledged().await,
            Err(error) => Err(error),
        };
        if done.is_err() {
            self.unwatch(subscriber, name).await?;
        }
        done
    }

    pub(crate) async fn unwatch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let _turn = self.shared.one_at_a_time.lock().await;
        if !self.shared.watchers.unwatch(subscriber, &name) {
            return Ok(());
        }
        let channel = channel(&name);
        if lock(&self.shared.names).remove(&channel).is_none() {
            return Ok(());
        }
        let link = &self.shared.link;
        link.ask("unsubscribe", link.client.unsubscribe(channel)).await
    }
}

impl Shared {
    /// fred's `subscribe` returns when the command is queued.
    async fn queue(&self, channels: Vec<String>) -> Result<(), BackendError> {
        self.link.ask("subscribe", self.link.client.subscribe(channels)).await
    }

    /// The server answers in order, so once it has answered a `PING` the subscriptions before it stand. If there was
    /// another connection in between, everybody is woken when they stand there.
    async fn acknowledged(&self) -> Result<(), BackendError> {
        self.link.ask("subscribe", self.link.client.ping(None)).await
    }

    async fn subscribe_again(&self) -> Result<(), BackendError> {
        let _turn = self.one_at_a_time.lock().await;
        let channels: Vec<String> = lock(&self.names).keys().cloned().collect();
        for some in channels.chunks(CHANNELS) {
            self.queue(some.to_vec()).await?;
        }
        self.acknowledged().await
    }

    fn freed(&self, message: &Message) {
        let name = lock(&self.names).get(&*message.channel).cloned();
        if let Some(name) = name {
            self.watchers.freed(&name);
        }
    }
}

/// The reader.
async fn read(shared: Arc<Shared>, mut messages: Receiver<Message>) {
    loop {
        match messages.recv().await {
            Ok(message) => shared.freed(&message),
            Err(RecvError::Lagged(_)) => shared.watchers.all(WakeReason::Lagged),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Messages of the time without a connection are lost: when the subscriptions stand again, everybody looks for
/// themselves.
async fn follow_reconnects<T: Clone>(shared: Arc<Shared>, mut reconnects: Receiver<T>) {
    loop {
        match reconnects.recv().await {
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
        if let Err(error) = shared.subscribe_again().await {
            tracing::warn!(%error, "subscriptions were not made again; waiters poll until the next connection");
        }
        shared.watchers.all(WakeReason::Reconnected);
    }
}

/// A connection that only listens does not notice that it is dead.
async fn ping(shared: Arc<Shared>) {
    loop {
        sleep(PING).await;
        if shared.link.is_up() {
            let asked = shared.link.ask("ping", shared.link.client.ping::<()>(None));
            let _ = tokio::time::timeout(PONG, asked).await;
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
