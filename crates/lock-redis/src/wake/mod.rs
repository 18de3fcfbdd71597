//! Wake-ups: one connection receives the messages for all names. A task keeps it subscribed to the desired channels,
//! one acknowledged batch at a time.

mod state;

pub(crate) use state::Acknowledgement;

use crate::{
    client::{Client, Listener, PubSub, Server},
    connection::{Current, Dialer, ManagedConnection, Purpose, ReplaceReason},
    error::{RequestError, no_answer, runtime_ended},
    keys::channel,
};
use lock_core::{
    __private::lock,
    LockName,
    backend::{BackendError, MissedWakes, SubscriberId, SubscriptionRegistry, WakeListener},
};
use state::{Batch, SubscriptionState};
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::{
        Notify,
        watch::{Receiver, error::RecvError},
    },
    task::JoinHandle,
    time::{sleep, timeout},
};

/// The interval of pings on an idle connection. Merely listening does not reveal a dead connection.
const PING: Duration = Duration::from_secs(5);
/// The time limit of a batch.
const BATCH: Duration = Duration::from_secs(2);
/// The pauses after failed batches.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// The subscriptions of a backend. Dropping it ends their connection.
pub(crate) struct Subscriptions<C: Client> {
    connection: Arc<ManagedConnection<C>>,
    wakes: Arc<Wakes>,
    task: JoinHandle<()>,
}

/// State shared by the connection, the task and the callers. The connection reports its messages to it, so it cannot
/// own the connection.
struct Wakes {
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
        let wakes = Arc::new(Wakes::new(kind, moved));
        let connection = ManagedConnection::open(dialer, Purpose::Messages(wakes.clone())).await?;
        Ok(Self::tended(connection, wakes))
    }

    /// Starts without waiting for the connection.
    pub(crate) fn begin(dialer: Arc<Dialer<C>>, kind: PubSub, moved: Option<Arc<Notify>>) -> Self {
        let wakes = Arc::new(Wakes::new(kind, moved));
        let connection = ManagedConnection::begin(dialer, Purpose::Messages(wakes.clone()));
        Self::tended(connection, wakes)
    }

    fn tended(connection: ManagedConnection<C>, wakes: Arc<Wakes>) -> Self {
        let connection = Arc::new(connection);
        let task = connection.home().keeper().spawn(tend(connection.clone(), wakes.clone()));
        Self { connection, wakes, task }
    }

    /// Returns the kind of the channels.
    pub(crate) fn kind(&self) -> PubSub {
        self.wakes.kind
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
        if self.wakes.forget_gone() {
            self.wakes.changed.notify_one();
        }
        self.wakes.watchers.register_listener(signals)
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
        let mut state = lock(&self.wakes.state);
        let acknowledgement = state.want(channel(name), (subscriber, name.clone()))?;
        self.wakes.watchers.subscribe(subscriber, name.clone());
        Ok(acknowledgement)
    }

    /// Takes over a name whose slot moved to this server. All waiters are woken once the channel is subscribed to.
    pub(crate) fn adopt(&self, subscriber: SubscriberId, name: &LockName) {
        let mut state = lock(&self.wakes.state);
        state.adopt(channel(name), name.clone());
        self.wakes.watchers.subscribe(subscriber, name.clone());
    }

    /// Drops a name whose slot has moved away from this server, and its channel.
    pub(crate) fn give_up(&self, subscriber: SubscriberId, name: &LockName) {
        let mut state = lock(&self.wakes.state);
        if self.wakes.watchers.unsubscribe(subscriber, name) {
            state.give_up(&channel(name), name);
        }
    }

    /// Wakes the task that adjusts the subscriptions to the desired channels.
    pub(crate) fn changed(&self) {
        self.wakes.changed.notify_one();
    }

    pub(crate) fn unwatch(&self, subscriber: SubscriberId, name: &LockName) {
        self.wakes.unwatch(&mut lock(&self.wakes.state), subscriber, name);
    }
}

impl Wakes {
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

impl Listener for Wakes {
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

/// Runs until the dialling task has ended.
async fn tend<C: Client>(connection: Arc<ManagedConnection<C>>, wakes: Arc<Wakes>) {
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
            () = wakes.changed.notified(), if failures == 0 => {}
            () = sleep(pause) => {}
        }
        if fresh {
            lock(&wakes.state).start_over();
        }
        wakes.forget_gone();
        let adopted = lock(&wakes.state).take_adopted();
        let settled = settle(&connection, &wakes, &mut logged).await;
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
            wakes.wake_all(MissedWakes::Reconnected);
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
async fn settle<C: Client>(connection: &ManagedConnection<C>, wakes: &Wakes, logged: &mut String) -> Settled {
    let mut first = true;
    loop {
        let batch = lock(&wakes.state).next_batch();
        if batch == Batch::default() && !first {
            if !std::mem::take(logged).is_empty() {
                tracing::info!("redis wake-ups are available again");
            }
            return Settled::Yes;
        }
        first = false;
        let answer = timeout(BATCH, ask(connection, wakes, &batch)).await;
        match answer.unwrap_or_else(|_| Err(no_answer("subscribe"))) {
            Ok(()) => lock(&wakes.state).acknowledged(batch),
            Err(error) => {
                let is_moved = error.redirection().is_some();
                if let (true, Some(moved)) = (is_moved, &wakes.moved) {
                    moved.notify_one();
                }
                let retryable = is_moved || error.is_retryable();
                log(&error, logged);
                wakes.fail(batch, &error);
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
    wakes: &Wakes,
    batch: &Batch,
) -> Result<(), RequestError> {
    match batch.subscribe.is_empty() && batch.unsubscribe.is_empty() {
        true => connection.ping("subscribe").await,
        false => connection.subscribe(wakes.kind, batch.subscribe.clone(), batch.unsubscribe.clone()).await,
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
