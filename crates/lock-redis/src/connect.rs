//! Connecting to one server, to the master that sentinels name, or to a cluster: by one attempt, or in the background
//! until the first connection, with the requests and subscribers before it.

use crate::{
    backend::Connected,
    check::{self, ConnectWarning, Expected},
    client::{Client, Login, PubSub},
    clock::ServerClock,
    cluster::{self, ClusterHandle},
    connection::{Dialer, FailedDials, GRACE, Home, ManagedConnection, Outage, Purpose, Target},
    error::{RequestError, misconfigured, not_connected, runtime_ended, unserved},
    pipeline::{fail, fail_as_ended, what},
    route::{OneServer, Route},
    sentinel::{Follower, Sentinels},
    shared::{Rules, Shared},
    url::Topology,
    wake::Subscriptions,
};
use lock_core::{
    __private::lock,
    LockName,
    backend::{BackendError, Submission, SubscriberId, WakeListener},
};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::SetOnce,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// The settings of each attempt to connect.
pub(crate) struct Plan<C> {
    pub(crate) client: Arc<C>,
    pub(crate) home: Arc<Home>,
    pub(crate) topology: Topology,
    pub(crate) login: Login,
    /// The time limit of each dial.
    pub(crate) limit: Duration,
    pub(crate) rules: Rules,
    pub(crate) replicas: u32,
}

impl<C: Client> Plan<C> {
    /// Connects once.
    pub(crate) async fn open(&self) -> Result<(Route<C>, Vec<ConnectWarning>), BackendError> {
        let (client, home, limit, rules) = (self.client.clone(), self.home.clone(), self.limit, self.rules);
        let target = match &self.topology {
            Topology::Standalone(endpoint) => Target::Fixed(endpoint.clone()),
            Topology::Sentinel(address) => {
                Target::Master(Arc::new(Sentinels::new(client.clone(), address.clone(), limit)))
            }
            Topology::Cluster(seeds) => {
                let (seeds, login) = (seeds.clone(), self.login.clone());
                let settings = cluster::Settings { client, home, seeds, login, limit, rules };
                let (cluster, warnings) = Box::pin(ClusterHandle::connect(settings)).await?;
                return Ok((Route::Cluster(cluster), warnings));
            }
            Topology::Quorum(_) => return Err(misconfigured("a quorum has several servers")),
        };
        let (login, lost, admission) = (self.login.clone(), None, None);
        let dialer = Dialer { client, home, target, login, limit, lost, admission };
        let settings = Settings { rules, replicas: self.replicas, expected: Expected::Master };
        let (server, warnings) = one_server(Arc::new(dialer), settings).await?;
        Ok((Route::One(server), warnings))
    }
}

/// The settings of a connection to one server.
pub(crate) struct Settings {
    pub(crate) rules: Rules,
    pub(crate) replicas: u32,
    pub(crate) expected: Expected,
}

/// Connects to one server, or to the master that the sentinels name, and checks it.
pub(crate) async fn one_server<C: Client>(
    dialer: Arc<Dialer<C>>,
    Settings { rules, replicas, expected }: Settings,
) -> Result<(OneServer<C>, Vec<ConnectWarning>), BackendError> {
    let (connection, subscriptions) = tokio::try_join!(
        ManagedConnection::open(dialer.clone(), Purpose::Requests),
        Subscriptions::open(dialer.clone(), PubSub::Plain, None),
    )?;
    let clock = ServerClock::default();
    let checks = async {
        let dialled = connection.connected("connect").await?;
        let checked = check::server(&dialled, expected).await?;
        let rights = check::rights(&connection, &subscriptions, &clock, check::scratch());
        rights.await.map_err(check::not_in_cluster)?;
        let mut warnings = checked.warnings;
        if replicas > 0 {
            warnings.extend(check::replicas(&connection, replicas).await?);
        }
        Ok::<_, BackendError>(warnings)
    };
    let checked = tokio::time::timeout(dialer.limit, Box::pin(checks)).await;
    let server = connection.server();
    let warnings = checked.map_err(|_| dialer.nobody_answers(server.as_ref()))??;
    let shared = Shared::new(connection, subscriptions, clock, rules);
    let shared = Arc::new(match replicas {
        0 => shared,
        replicas => {
            let direct = ManagedConnection::open(dialer.clone(), Purpose::Requests).await?;
            shared.acknowledged_by(replicas, direct)
        }
    });
    let follower = match &dialer.target {
        Target::Master(sentinels) => Some(Follower::start(sentinels.clone(), shared.clone())),
        Target::Fixed(_) | Target::AnySentinel(_) => None,
    };
    Ok((OneServer::new(shared, follower), warnings))
}

/// A backend that connects in the background. Dropping it ends that task.
pub(crate) struct Lazy<C: Client> {
    state: Arc<LazyState<C>>,
    home: Arc<Home>,
    task: JoinHandle<()>,
}

/// The state that the task and the backend share.
struct LazyState<C: Client> {
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
    pub(crate) fn start(plan: Plan<C>) -> Self {
        let (connected, outage, subscribers) = (SetOnce::new(), Outage::new(), Mutex::default());
        let state = Arc::new(LazyState { connected, outage, subscribers });
        let home = plan.home.clone();
        let task = home.keeper().spawn(connect(plan, state.clone()));
        Self { state, home, task }
    }

    pub(crate) fn get(&self) -> Option<&Connected<C>> {
        self.state.connected.get()
    }

    /// Returns the servers, or waits a moment for the first connection.
    pub(crate) async fn connected(&self, what: &str) -> Result<&Connected<C>, RequestError> {
        match self.task.is_finished() && self.get().is_none() {
            true => Err(runtime_ended(what)),
            false => self.state.connected(what).await,
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
        let state = self.state.clone();
        self.home.keeper().spawn(async move {
            match state.connected(what(submission.operation())).await {
                Ok(connected) => connected.route.submit(submission),
                Err(error) => fail(submission, error),
            }
        });
    }

    pub(crate) fn attach(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        let mut subscribers = lock(&self.state.subscribers);
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
                lock(&self.state.subscribers).waiting.insert(waiting.clone());
                let connected = self.state.connected.wait().await;
                // Otherwise it was ended in the meantime.
                let goes_on = lock(&self.state.subscribers).waiting.remove(&waiting);
                goes_on.then_some(connected).ok_or_else(ended)?
            }
        };
        let (subscriber, name) = waiting;
        route.watch(self.own(subscriber).ok_or_else(ended)?, name).await
    }

    pub(crate) fn unwatch(&self, subscriber: SubscriberId, name: &LockName) {
        lock(&self.state.subscribers).waiting.remove(&(subscriber, name.clone()));
        if let (Some(own), Some(connected)) = (self.own(subscriber), self.get()) {
            connected.route.unwatch(own, name);
        }
    }

    /// Returns a subscriber's id at the servers.
    fn own(&self, subscriber: SubscriberId) -> Option<SubscriberId> {
        let position = usize::try_from(subscriber.get()).ok()?.checked_sub(1)?;
        lock(&self.state.subscribers).ids.get(position).copied()
    }
}

impl<C: Client> LazyState<C> {
    async fn connected(&self, what: &str) -> Result<&Connected<C>, RequestError> {
        let connected = timeout(GRACE, self.connected.wait()).await;
        connected.map_err(|_| not_connected(what, &self.outage))
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
async fn connect<C: Client>(plan: Plan<C>, state: Arc<LazyState<C>>) {
    let mut failures = FailedDials::default();
    loop {
        match Box::pin(plan.open()).await {
            Ok((route, warnings)) => {
                state.publish(Connected { route, warnings });
                return tracing::info!("connected to redis");
            }
            Err(error) => sleep(failures.add(&error, &state.outage)).await,
        }
    }
}
