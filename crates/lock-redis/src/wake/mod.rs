//! Wake-ups: one connection for the messages of all names.

mod state;
mod tend;

use crate::{
    client::{Client, Listener, PubSub, Server},
    connection::{Dialer, ManagedConnection, Purpose, ReplaceReason},
    error::{RequestError, runtime_ended},
    keys::channel,
    sync::lock,
};
use lock_core::{
    LockName,
    backend::{BackendError, MissedWakes, SubscriberId, SubscriptionRegistry, WakeListener},
};
pub(crate) use state::Acknowledgement;
use state::{Batch, SubscriptionState};
use std::sync::{Arc, Mutex, Weak};
use tokio::{sync::Notify, task::JoinHandle};

/// The subscriptions of a backend. Dropping it ends their connection.
pub(crate) struct Subscriptions<C: Client> {
    connection: Arc<ManagedConnection<C>>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// Shared by the connection, the task and the callers. The connection reports its messages here, so it is no part of this.
struct Shared {
    kind: PubSub,
    /// Notified when a channel has moved to another server.
    moved: Option<Arc<Notify>>,
    watchers: SubscriptionRegistry,
    /// Taken before the mutex of the watchers.
    state: Mutex<SubscriptionState>,
    /// Something is wanted, or not wanted any more.
    changed: Notify,
}

impl<C: Client> Subscriptions<C> {
    /// Dials the connection for messages.
    ///
    /// `moved` is notified when the server gives up a channel because its slot moved.
    pub(crate) async fn open(
        dialer: Arc<Dialer<C>>,
        kind: PubSub,
        moved: Option<Arc<Notify>>,
    ) -> Result<Self, BackendError> {
        let shared = Arc::new(Shared::new(kind, moved));
        let connection = ManagedConnection::open(dialer, Purpose::Messages(shared.clone())).await?;
        Ok(Self::tended(connection, shared))
    }

    /// The same without waiting for the connection.
    pub(crate) fn begin(dialer: Arc<Dialer<C>>, kind: PubSub, moved: Option<Arc<Notify>>) -> Self {
        let shared = Arc::new(Shared::new(kind, moved));
        let connection = ManagedConnection::begin(dialer, Purpose::Messages(shared.clone()));
        Self::tended(connection, shared)
    }

    fn tended(connection: ManagedConnection<C>, shared: Arc<Shared>) -> Self {
        let connection = Arc::new(connection);
        let task = tokio::spawn(tend::run(connection.clone(), shared.clone()));
        Self { connection, shared, task }
    }

    /// The kind of the channels.
    pub(crate) fn kind(&self) -> PubSub {
        self.shared.kind
    }

    /// Asks for another connection.
    pub(crate) fn replace(&self, reason: ReplaceReason) {
        self.connection.replace(reason);
    }

    /// Asks for another connection, if the one that stands leads to another server.
    pub(crate) fn follow(&self, master: &Server) {
        self.connection.follow(master);
    }

    pub(crate) fn attach(&self, signals: Weak<dyn WakeListener>) -> SubscriberId {
        if self.shared.forget_gone() {
            self.shared.changed.notify_one();
        }
        self.shared.watchers.register_listener(signals)
    }

    /// Tries to subscribe at all.
    pub(crate) async fn probe(&self, channel: String) -> Result<(), RequestError> {
        self.connection.subscribe(self.kind(), vec![channel.clone()], vec![channel]).await
    }

    /// Returns when the server has acknowledged the subscription.
    pub(crate) async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let acknowledgement = self.begin_watch(subscriber, &name)?;
        self.changed();
        // A failure has ended the watch already: by the time it is seen here, a newer watch may stand.
        acknowledgement.await.unwrap_or_else(|_| Err(runtime_ended("subscribe").into()))
    }

    /// Wants a channel. The caller says afterwards that this has [`changed`](Self::changed).
    pub(crate) fn begin_watch(
        &self,
        subscriber: SubscriberId,
        name: &LockName,
    ) -> Result<Acknowledgement, BackendError> {
        // Both in one step: the end of another's watch would fall in between, and undo this one.
        let mut state = lock(&self.shared.state);
        let acknowledgement = state.want(channel(name), (subscriber, name.clone()))?;
        self.shared.watchers.subscribe(subscriber, name.clone());
        Ok(acknowledgement)
    }

    /// Watches a name whose slot this server has got. When the channel stands, everybody is woken.
    pub(crate) fn adopt(&self, subscriber: SubscriberId, name: &LockName) {
        let mut state = lock(&self.shared.state);
        state.adopt(channel(name), name.clone());
        self.shared.watchers.subscribe(subscriber, name.clone());
    }

    /// Ends a watch of a name whose slot this server has lost, and with it the channel.
    pub(crate) fn give_up(&self, subscriber: SubscriberId, name: &LockName) {
        let mut state = lock(&self.shared.state);
        if self.shared.watchers.unsubscribe(subscriber, name) {
            state.give_up(&channel(name), name);
        }
    }

    /// Has the connection subscribed as it is wanted now.
    pub(crate) fn changed(&self) {
        self.shared.changed.notify_one();
    }

    pub(crate) fn unwatch(&self, subscriber: SubscriberId, name: &LockName) {
        self.shared.unwatch(&mut lock(&self.shared.state), subscriber, name);
    }
}

impl Shared {
    fn new(kind: PubSub, moved: Option<Arc<Notify>>) -> Self {
        let (watchers, state, changed) = (SubscriptionRegistry::default(), Mutex::default(), Notify::new());
        Self { kind, moved, watchers, state, changed }
    }

    fn unwatch(&self, state: &mut SubscriptionState, subscriber: SubscriberId, name: &LockName) {
        if self.watchers.unsubscribe(subscriber, name) {
            state.unwant(&channel(name), name);
            self.changed.notify_one();
        }
    }

    /// The server did not take a batch: the watches that waited for it are over.
    fn fail(&self, batch: Batch, error: &RequestError) {
        let mut state = lock(&self.state);
        for (subscriber, name) in state.failed(batch, error) {
            self.unwatch(&mut state, subscriber, &name);
        }
    }

    /// Gives up what was watched by factories that are gone, and says whether anything was.
    fn forget_gone(&self) -> bool {
        let mut state = lock(&self.state);
        let names = self.watchers.forget_gone();
        names.iter().for_each(|name| state.unwant(&channel(name), name));
        !names.is_empty()
    }

    fn wake_all(&self, reason: MissedWakes) {
        self.watchers.wake_all(reason);
    }
}

impl Listener for Shared {
    fn message(&self, channel: &str) {
        let names = lock(&self.state).names(channel);
        for name in names {
            self.watchers.released(&name);
        }
    }

    fn missed(&self) {
        self.wake_all(MissedWakes::Lagged);
    }
}

impl<C: Client> Drop for Subscriptions<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
