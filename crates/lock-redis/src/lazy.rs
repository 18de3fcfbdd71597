//! A backend that was created without a server: the first connection, and the requests and subscribers before it.

use crate::{
    backend::Connected,
    client::Client,
    connection::{FailedDials, GRACE, Outage},
    error::{self, RequestError, unserved},
    pipeline::{fail, fail_as_ended, what},
    plan::Plan,
    sync::lock,
};
use lock_core::{
    LockName,
    backend::{BackendError, Submission, SubscriberId, WakeListener},
};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, Weak},
};
use tokio::{
    runtime::Handle,
    sync::SetOnce,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// A backend that connects in the background. Dropping it ends that task.
pub(crate) struct Lazy<C: Client> {
    shared: Arc<Shared<C>>,
    runtime: Handle,
    task: JoinHandle<()>,
}

/// The state that the task and the backend share.
struct Shared<C: Client> {
    /// Set once the first connection is established.
    connected: SetOnce<Connected<C>>,
    /// The reason why it is not.
    outage: Outage,
    subscribers: Mutex<Subscribers>,
}

/// The subscribers of the backend. Their ids are their positions in the order of registration.
#[derive(Default)]
struct Subscribers {
    /// Those that registered before the first connection.
    early: Vec<Weak<dyn WakeListener>>,
    /// The ids of all at the servers, after the first connection.
    ids: Vec<SubscriberId>,
    /// The subscriptions that wait for it.
    waiting: HashSet<(SubscriberId, LockName)>,
}

impl<C: Client> Lazy<C> {
    /// Starts to connect.
    pub(crate) fn start(plan: Plan<C>, runtime: &Handle) -> Self {
        let (connected, outage, subscribers) = (SetOnce::new(), Outage::new(), Mutex::default());
        let shared = Arc::new(Shared { connected, outage, subscribers });
        let task = runtime.spawn(connect(plan, shared.clone()));
        Self { shared, runtime: runtime.clone(), task }
    }

    pub(crate) fn get(&self) -> Option<&Connected<C>> {
        self.shared.connected.get()
    }

    /// Returns the servers, or waits a moment for the first connection.
    pub(crate) async fn connected(&self, what: &str) -> Result<&Connected<C>, RequestError> {
        match self.task.is_finished() && self.get().is_none() {
            true => Err(error::runtime_ended(what)),
            false => self.shared.connected(what).await,
        }
    }

    /// Submits an operation after the first connection, or fails it after a moment.
    pub(crate) fn submit(&self, submission: Submission) {
        if let Some(connected) = self.get() {
            return connected.route.submit(submission);
        }
        if self.task.is_finished() {
            return fail_as_ended(submission);
        }
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            match shared.connected(what(submission.operation())).await {
                Ok(connected) => connected.route.submit(submission),
                Err(error) => fail(submission, error),
            }
        });
    }

    pub(crate) fn attach(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        let mut subscribers = lock(&self.shared.subscribers);
        let position = match self.get() {
            Some(Connected { route, .. }) => {
                subscribers.ids.push(route.attach(listener));
                subscribers.ids.len()
            }
            None => {
                subscribers.early.push(listener);
                subscribers.early.len()
            }
        };
        SubscriberId::new(position as u64)
    }

    /// Waits for the first connection, then subscribes.
    pub(crate) async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let ended = || BackendError::from(unserved("subscribe"));
        let waiting = (subscriber, name);
        let Connected { route, .. } = match self.get() {
            Some(connected) => connected,
            None => {
                lock(&self.shared.subscribers).waiting.insert(waiting.clone());
                let connected = self.shared.connected.wait().await;
                // Otherwise it was ended in the meantime.
                let goes_on = lock(&self.shared.subscribers).waiting.remove(&waiting);
                goes_on.then_some(connected).ok_or_else(ended)?
            }
        };
        let (subscriber, name) = waiting;
        route.watch(self.own(subscriber).ok_or_else(ended)?, name).await
    }

    pub(crate) fn unwatch(&self, subscriber: SubscriberId, name: &LockName) {
        lock(&self.shared.subscribers).waiting.remove(&(subscriber, name.clone()));
        if let (Some(own), Some(connected)) = (self.own(subscriber), self.get()) {
            connected.route.unwatch(own, name);
        }
    }

    /// Returns a subscriber's id at the servers.
    fn own(&self, subscriber: SubscriberId) -> Option<SubscriberId> {
        let position = usize::try_from(subscriber.get()).ok()?.checked_sub(1)?;
        lock(&self.shared.subscribers).ids.get(position).copied()
    }
}

impl<C: Client> Shared<C> {
    async fn connected(&self, what: &str) -> Result<&Connected<C>, RequestError> {
        let connected = timeout(GRACE, self.connected.wait()).await;
        connected.map_err(|_| error::not_connected(what, &self.outage))
    }

    /// Sets the servers, and registers the subscribers there.
    fn publish(&self, connected: Connected<C>) {
        let mut subscribers = lock(&self.subscribers);
        let early = std::mem::take(&mut subscribers.early);
        subscribers.ids = early.into_iter().map(|listener| connected.route.attach(listener)).collect();
        // Still under the mutex: a subscriber registers either before or after this.
        let _ = self.connected.set(connected);
    }
}

impl<C: Client> Drop for Lazy<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects until it succeeds. A refusal may be corrected while the program is running.
async fn connect<C: Client>(plan: Plan<C>, shared: Arc<Shared<C>>) {
    let mut failures = FailedDials::default();
    loop {
        match Box::pin(plan.open()).await {
            Ok((route, warnings)) => {
                shared.publish(Connected { route, warnings });
                return tracing::info!("connected to redis");
            }
            Err(error) => sleep(failures.add(&error, &shared.outage)).await,
        }
    }
}
