//! The Redis backend.

use crate::{
    check::{self, ConnectWarning},
    client::Client,
    connect::{Lazy, Plan},
    connection::Home,
    error::{RequestError, misconfigured},
    keys::{self, Keys},
    ledger::Gathering,
    route::Route,
    script::{self, Script},
    script_reply::ScriptReply,
    shared::Shared,
};
use async_trait::async_trait;
use lock_core::{
    LockError, LockName, Store, Worker,
    backend::{
        Backend, BackendError, BackendExt as _, Capabilities, ForceReleaseRequest, ForceReleased, Inspected,
        LeaseId, NotifyWaiters, ReleaseRequest, Released, Reply, Submission, SubscriberId, WakeListener,
    },
    clock::UtcTime,
};
use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// A Redis backend with Redisson's data layout, on one server, the master behind Sentinel, or a
/// cluster. It uses the client library `C`.
///
/// Created by [`connect`](Self::connect) or [`RedisBackendBuilder`](crate::RedisBackendBuilder). Clones share the
/// connections, which close with the last clone. The connections live in the
/// [worker](crate::RedisBackendBuilder::worker), or else in the tokio runtime that connects. If that runtime ends, or
/// does not run a task for a second, or if there is none, they live in the keeper, a thread of this process. A request
/// whose outcome is unknown is not sent again.
pub struct RedisBackend<C: Client> {
    inner: Arc<Inner<C>>,
}

struct Inner<C: Client> {
    servers: Servers<C>,
    /// Set once the commands that the ledger needs have been tried.
    ledger_probed: AtomicBool,
    gathering: Gathering,
    home: Arc<Home>,
    /// The runtime that the backend was given for its connections. It is dropped last.
    worker: Option<Worker>,
}

/// The servers of a backend.
enum Servers<C: Client> {
    Connected(Connected<C>),
    /// They are unknown until the first connection.
    Lazy(Lazy<C>),
}

/// Servers that were connected and checked.
pub(crate) struct Connected<C: Client> {
    pub(crate) route: Route<C>,
    pub(crate) warnings: Vec<ConnectWarning>,
}

impl<C: Client> Servers<C> {
    fn get(&self) -> Option<&Connected<C>> {
        match self {
            Self::Connected(connected) => Some(connected),
            Self::Lazy(lazy) => lazy.get(),
        }
    }
}

impl<C: Client> RedisBackend<C> {
    /// Returns warnings about server settings that can cause locks to be lost, and about cluster nodes that did not
    /// answer. They were also logged when the backend connected.
    #[must_use]
    pub fn warnings(&self) -> &[ConnectWarning] {
        self.inner.servers.get().map_or(&[], |connected| &connected.warnings)
    }

    /// Returns `true` if the request connections to all servers are open. Sends no request.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.inner.servers.get().is_some_and(|connected| connected.route.is_connected())
    }

    /// Pings every server and returns the time until all have replied. For readiness probes, see
    /// [`LockFactory::health`](lock_core::LockFactory::health), which caches its results for a
    /// second.
    ///
    /// # Errors
    /// [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if there is no
    /// connection or it is lost during the ping. The call fails after 2 to 3 s if a server does not
    /// respond. For a shorter limit, wrap the call in a timeout.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn ping(&self) -> Result<Duration, LockError> {
        let (asked, redis) = (Instant::now(), self.clone());
        self.home().run_here(async move { redis.route("ping").await?.ping().await }).await??;
        Ok(asked.elapsed())
    }

    pub(crate) fn new(
        (route, warnings): (Route<C>, Vec<ConnectWarning>),
        home: Arc<Home>,
        worker: Option<Worker>,
    ) -> Self {
        Self::over(Servers::Connected(Connected { route, warnings }), home, worker)
    }

    /// Creates a backend that connects in the background.
    pub(crate) fn lazy(plan: Plan<C>, worker: Option<Worker>) -> Self {
        let home = plan.home.clone();
        Self::over(Servers::Lazy(Lazy::start(plan)), home, worker)
    }

    fn over(servers: Servers<C>, home: Arc<Home>, worker: Option<Worker>) -> Self {
        let (ledger_probed, gathering) = (AtomicBool::new(false), Gathering::default());
        Self { inner: Arc::new(Inner { servers, ledger_probed, gathering, home, worker }) }
    }

    /// Tries every command that the ledger needs, once per backend.
    pub(crate) async fn probe_ledger(&self) -> Result<(), RequestError> {
        if self.inner.ledger_probed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Keys { lock, counter, channel } = check::scratch();
        let args = vec![channel, "ledger".to_owned(), self.sharded(script::PROBE.name).await?];
        self.run(&script::PROBE, vec![lock, counter], args).await?.probed()?;
        self.inner.ledger_probed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the estimated time of the server that serves this key, if known.
    pub(crate) fn server_time(&self, key: &str) -> Option<UtcTime> {
        self.inner.servers.get()?.route.server_time(key)
    }

    /// Returns the servers of this backend, or waits a moment for the first connection.
    pub(crate) async fn route(&self, what: &str) -> Result<&Route<C>, RequestError> {
        match &self.inner.servers {
            Servers::Connected(connected) => Ok(&connected.route),
            // Boxed: this would increase the size of every request.
            Servers::Lazy(lazy) => Ok(&Box::pin(lazy.connected(what)).await?.route),
        }
    }

    /// Returns the runtimes of this backend.
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.inner.home
    }

    /// Returns the scheduler requests that are waiting to be sent.
    pub(crate) fn gathering(&self) -> &Gathering {
        &self.inner.gathering
    }

    /// Returns the only server, or an error if this backend cannot be a quorum node.
    pub(crate) fn node(&self) -> Result<&Shared<C>, BackendError> {
        match &self.inner.servers {
            Servers::Connected(connected) => connected.route.node(),
            Servers::Lazy(_) => Err(misconfigured("a quorum node cannot connect lazily; use `connect`")),
        }
    }

    /// Runs a script and updates the estimate of the server's clock from its reply.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        arguments: Vec<String>,
    ) -> Result<ScriptReply, RequestError> {
        self.route(script.name).await?.run(script, &keys, &arguments).await
    }

    /// Releases a permit or a place, like its process.
    async fn force_release_of_permit(
        &self,
        r: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let changed = |now| Reply::new(now, ForceReleased::HolderChanged);
        let Some(lease) = LeaseId::parse(&r.seen) else {
            let pool = self.inspect(r.name).await?;
            return Ok(changed(pool.now));
        };
        let request = ReleaseRequest { name: r.name, lease, depth_left: 0, notify: NotifyWaiters::Yes };
        let reply = self.release(request).await?;
        Ok(match reply.outcome {
            Released::Released { .. } => Reply::new(reply.now, ForceReleased::Released),
            _ => changed(reply.now),
        })
    }

    /// Returns the script argument that indicates whether the channels are sharded.
    async fn sharded(&self, what: &str) -> Result<String, RequestError> {
        Ok(Keys::sharded(self.route(what).await?.pubsub()).to_owned())
    }
}

#[async_trait]
impl<C: Client> Backend for RedisBackend<C> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("redis").with_wakes_in_task().with_permits()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.server_time(name.as_str())
    }

    /// Batches concurrent operations into few calls. An operation is sent immediately if no call is in
    /// progress.
    fn submit(&self, submission: Submission) {
        match &self.inner.servers {
            Servers::Connected(connected) => connected.route.submit(submission),
            Servers::Lazy(lazy) => lazy.submit(submission),
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        if name.is_pool() {
            let keys = vec![name.as_str().to_owned(), keys::queue(&name)];
            return Ok(self.run(&script::INSPECT_POOL, keys, Vec::new()).await?.inspected_pool()?);
        }
        Ok(self.run(&script::INSPECT, vec![Keys::of(&name).lock], Vec::new()).await?.inspected()?)
    }

    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        if r.name.is_pool() {
            return self.force_release_of_permit(r).await;
        }
        let Keys { lock, channel, .. } = Keys::of(&r.name);
        let arguments = vec![r.seen, channel, self.sharded(script::FORCE_RELEASE.name).await?];
        Ok(self.run(&script::FORCE_RELEASE, vec![lock], arguments).await?.forced()?)
    }
}

#[async_trait]
impl<C: Client> lock_core::backend::Subscriptions for RedisBackend<C> {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        match &self.inner.servers {
            Servers::Connected(connected) => connected.route.attach(listener),
            Servers::Lazy(lazy) => lazy.attach(listener),
        }
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        match &self.inner.servers {
            Servers::Connected(connected) => connected.route.watch(subscriber, name).await,
            Servers::Lazy(lazy) => lazy.watch(subscriber, name).await,
        }
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        match &self.inner.servers {
            Servers::Connected(connected) => connected.route.unwatch(subscriber, &name),
            Servers::Lazy(lazy) => lazy.unwatch(subscriber, &name),
        }
        Ok(())
    }
}

impl<C: Client> From<RedisBackend<C>> for Store {
    fn from(redis: RedisBackend<C>) -> Self {
        let (worker, redis) = (redis.inner.worker.clone(), Arc::new(redis));
        let store = Self::new(redis.clone()).pushing(redis.clone()).with_directory(redis);
        match worker {
            Some(worker) => store.on(worker),
            None => store,
        }
    }
}

/// Clones share the connections.
impl<C: Client> Clone for RedisBackend<C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<C: Client> fmt::Debug for RedisBackend<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration is omitted because it contains the password.
        f.debug_struct("RedisBackend").finish_non_exhaustive()
    }
}
