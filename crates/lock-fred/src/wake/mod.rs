//! Wake-ups: one connection and one reader for all names.

mod desk;
mod tend;

use crate::{error::runtime_ended, keys::channel, link::Link, sync::lock};
use desk::{Desk, Round};
use fred::{interfaces::EventInterface, types::Message};
use lock_core::{
    BackendError, LockName,
    backend::{Signals, SubscriberId, WakeReason, Watchers},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, Weak},
};
use tokio::{
    sync::{
        Notify,
        broadcast::{Receiver, error::RecvError},
    },
    task::JoinHandle,
};

/// The subscriptions of a backend. Dropping it ends the reader and its connection.
pub(crate) struct Subscriptions {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    link: Link,
    watchers: Watchers,
    /// Taken before the mutex of the watchers.
    desk: Mutex<Desk>,
    /// Something is wanted, or not wanted any more.
    changed: Notify,
}

impl Subscriptions {
    pub(crate) fn new(link: Link) -> Self {
        let (messages, reconnects) = (link.client.message_rx(), link.client.reconnect_rx());
        let (watchers, desk, changed) = (Watchers::default(), Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { link, watchers, desk, changed });
        let tasks = vec![
            tokio::spawn(read(shared.clone(), messages)),
            tokio::spawn(tend::run(shared.clone(), reconnects)),
        ];
        Self { shared, tasks }
    }

    pub(crate) fn link(&self) -> &Link {
        &self.shared.link
    }

    pub(crate) fn attach(&self, signals: Weak<dyn Signals>) -> SubscriberId {
        if self.shared.forget_gone() {
            self.shared.changed.notify_one();
        }
        self.shared.watchers.attach(signals)
    }

    /// Whether we may subscribe at all.
    pub(crate) async fn probe(&self, channel: String) -> Result<(), BackendError> {
        let both = Round { subscribe: vec![channel.clone()], unsubscribe: vec![channel] };
        tend::say(&self.shared.link, &both).await
    }

    /// Returns when the server has acknowledged the subscription.
    pub(crate) async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let told = {
            // Both in one step: the end of another's watch would fall in between, and undo this one.
            let mut desk = lock(&self.shared.desk);
            let told = desk.want(channel(&name), (subscriber, name.clone()))?;
            self.shared.watchers.watch(subscriber, name);
            told
        };
        self.shared.changed.notify_one();
        // A failure has ended the watch already: by the time it is seen here, a newer watch may stand.
        told.await.unwrap_or_else(|_| Err(runtime_ended("subscribe")))
    }

    pub(crate) fn unwatch(&self, subscriber: SubscriberId, name: &LockName) {
        self.shared.unwatch(&mut lock(&self.shared.desk), subscriber, name);
    }
}

impl Shared {
    fn unwatch(&self, desk: &mut Desk, subscriber: SubscriberId, name: &LockName) {
        if self.watchers.unwatch(subscriber, name) {
            desk.unwant(&channel(name), name);
            self.changed.notify_one();
        }
    }

    /// The server did not take a round: the watches that waited for it are over.
    fn fail(&self, round: Round, error: &BackendError) {
        let mut desk = lock(&self.desk);
        for (subscriber, name) in desk.failed(round, error) {
            self.unwatch(&mut desk, subscriber, &name);
        }
    }

    /// Gives up what was watched by factories that are gone, and says whether anything was.
    fn forget_gone(&self) -> bool {
        let mut desk = lock(&self.desk);
        let names = self.watchers.forget_gone();
        names.iter().for_each(|name| desk.unwant(&channel(name), name));
        !names.is_empty()
    }

    fn freed(&self, message: &Message) {
        let names = lock(&self.desk).names(&message.channel);
        for name in names {
            self.guarded(|watchers| {
                watchers.freed(&name);
            });
        }
    }

    fn all(&self, reason: WakeReason) {
        self.guarded(|watchers| watchers.all(reason));
    }

    /// Whoever listens may panic; the others go on listening.
    fn guarded(&self, tell: impl FnOnce(&Watchers)) {
        if catch_unwind(AssertUnwindSafe(|| tell(&self.watchers))).is_err() {
            tracing::error!("a listener panicked at a wake-up");
        }
    }
}

/// The reader.
async fn read(shared: Arc<Shared>, mut messages: Receiver<Message>) {
    loop {
        match messages.recv().await {
            Ok(message) => shared.freed(&message),
            Err(RecvError::Lagged(_)) => shared.all(WakeReason::Lagged),
            Err(RecvError::Closed) => return,
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
