//! Wake-ups: one connection receives the messages for all names.

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

/// State shared by the connection, the task and the callers. The connection reports its messages to it, so it cannot
/// own the connection.
struct Shared {
    kind: PubSub,
    /// Notified when a channel has moved to another server.
    moved: Option<Arc<Notify>>,
    watchers: SubscriptionRegistry,
    /// Locked before the mutex of the watchers.
    state: Mutex<SubscriptionState>,
    /// Notified when the set of desired channels has changed.
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

    /// Starts without waiting for the connection.
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

    /// Returns the kind of the channels.
    pub(crate) fn kind(&self) -> PubSub {
        self.shared.kind
    }

    /// Requests another connection.
    pub(crate) fn replace(&self, reason: ReplaceReason) {
        self.connection.replace(reason);
    }

    /// Requests another connection if the current one leads to another server.
    pub(crate) fn follow(&self, master: &Server) {
        self.connection.follow(master);
    }

    pub(crate) fn attach(&self, signals: Weak<dyn WakeListener>) -> SubscriberId {
        if self.shared.forget_gone() {
            self.shared.changed.notify_one();
        }
        self.shared.watchers.register_listener(signals)
    }

    /// Checks that the user has permission to subscribe.
    pub(crate) async fn probe(&self, channel: String) -> Result<(), RequestError> {
        self.connection.subscribe(self.kind(), vec![channel.clone()], vec![channel]).await
    }

    /// Subscribes, and returns once the server has acknowledged the subscription.
    pub(crate) async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let acknowledgement = self.begin_watch(subscriber, &name)?;
        self.changed();
        // A failure has already ended this subscription. It is not ended again here: a newer one may exist by now.
        acknowledgement.await.unwrap_or_else(|_| Err(runtime_ended("subscribe").into()))
    }

    /// Registers a desired channel. The caller must call [`changed`](Self::changed) afterwards.
    pub(crate) fn begin_watch(
        &self,
        subscriber: SubscriberId,
        name: &LockName,
    ) -> Result<Acknowledgement, BackendError> {
        // Both steps happen under one lock. Otherwise the end of another subscription in between could undo this one.
        let mut state = lock(&self.shared.state);
        let acknowledgement = state.want(channel(name), (subscriber, name.clone()))?;
        self.shared.watchers.subscribe(subscriber, name.clone());
        Ok(acknowledgement)
    }

    /// Takes over a name whose slot moved to this server. All waiters are woken once the channel is subscribed to.
    pub(crate) fn adopt(&self, subscriber: SubscriberId, name: &LockName) {
        let mut state = lock(&self.shared.state);
        state.adopt(channel(name), name.clone());
        self.shared.watchers.subscribe(subscriber, name.clone());
    }

    /// Drops a name whose slot has moved away from this server, and its channel.
    pub(crate) fn give_up(&self, subscriber: SubscriberId, name: &LockName) {
        let mut state = lock(&self.shared.state);
        if self.shared.watchers.unsubscribe(subscriber, name) {
            state.give_up(&channel(name), name);
        }
    }

    /// Wakes the task that adjusts the subscriptions to the desired channels.
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

    /// Ends the subscriptions that were waiting for a batch that the server did not accept.
    fn fail(&self, batch: Batch, error: &RequestError) {
        let mut state = lock(&self.state);
        for (subscriber, name) in state.failed(batch, error) {
            self.unwatch(&mut state, subscriber, &name);
        }
    }

    /// Drops the subscriptions of factories that no longer exist. Returns `true` if there were any.
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
