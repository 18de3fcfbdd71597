//! The settings for a backend, and the setup of its connections.

use crate::{
    backend::RedisBackend,
    client::{Client, Credentials, Login, Provider, Tls, TlsSupport},
    connect::Plan,
    connection::Home,
    error::misconfigured,
    shared::{Channels, ForeignStrings, Releases, Rules},
    url::{Address, Topology},
};
use futures_util::future::BoxFuture;
use lock_core::{LockError, Store, Worker, backend::BackendError};
use lock_quorum::QuorumBackend;
use std::{error::Error, fmt, sync::Arc, time::Duration};

/// The default retention of an unused fencing counter.
const RETENTION: Duration = Duration::from_secs(60 * 60);
/// The minimum retention. With a shorter one, counters in use would be lost.
const MIN_RETENTION: Duration = Duration::from_secs(1);
/// The maximum retention. Servers refuse expiries that are too far ahead.
const MAX_RETENTION: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
/// The default time limit of a dial and of the checks that follow it.
const CONNECT: Duration = Duration::from_secs(5);

/// A builder for a [`RedisBackend`].
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | [`retention`](Self::retention) | 1 h | time for which a lock's fencing counter is kept after a grant |
/// | [`connect_timeout`](Self::connect_timeout) | 5 s | time limit of each connect and reconnect |
/// | [`credentials`](Self::credentials) | set by the URL | function that returns the login for each dial |
/// | [`tls`](Self::tls) | set by the URL | trusted authorities and client certificate |
/// | [`replicas`](Self::replicas) | 0 | number of replicas that must acknowledge a lease before it counts |
/// | [`foreign_strings_are_busy`](Self::foreign_strings_are_busy) | `false` | the lock of a `SET NX PX` client counts as busy |
/// | [`release_by_script`](Self::release_by_script) | `false` | every release is a script, for proxies that reorder commands |
/// | [`plain_channels`](Self::plain_channels) | `false` | wake-ups in a cluster use no sharded channels |
/// | [`worker`](Self::worker) | the current runtime | runtime in which the connections live |
///
/// A client crate such as lock-fred exports an alias of this type with its own client as `C`.
#[must_use]
pub struct RedisBackendBuilder<C> {
    client: C,
    pub(crate) address: Address,
    pub(crate) retention: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) replicas: u32,
    pub(crate) foreign_strings: ForeignStrings,
    releases: Releases,
    channels: Channels,
    pub(crate) worker: Option<Worker>,
    provider: Option<Arc<Provider>>,
}

/// A client whose library has its own description of a server and a login.
pub trait Configured: Client {
    /// The description.
    type Config;

    /// Reads the server, the login and the TLS settings.
    ///
    /// # Errors
    /// Returns [`LockError`] with the reason why they cannot be used.
    fn from_config(config: &Self::Config) -> Result<(Self, Address), LockError>;
}

impl<C: Configured> RedisBackendBuilder<C> {
    /// Creates a builder with the server, the login, the database and the TLS settings of the client library: a
    /// `redis::Client` for lock-redis-rs, and a `fred::types::config::Config` for lock-fred.
    ///
    /// The backend opens its own connections. Those of the program cannot be shared, because locks need different rules
    /// for time limits, retries and reconnection, and ignore those of `config`.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the settings cannot be used for locks. For
    /// lock-redis-rs: if the client does not verify certificates, if its database number is above 255, or if it has
    /// certificates of its own, which redis-rs does not expose; then use [`from_url`](Self::from_url) and
    /// [`tls`](Self::tls). A fred configuration is always accepted. Its Sentinel login is not used: if the
    /// Sentinels need one, use a URL.
    pub fn from_client(config: &C::Config) -> Result<Self, LockError> {
        let (client, address) = C::from_config(config)?;
        Ok(Self::new(client, address))
    }
}

impl<C: Client> RedisBackendBuilder<C> {
    /// Creates a builder from a URL. [`Address`] lists the accepted forms.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL is malformed, if a file that it
    /// names cannot be read, or if it needs TLS and the client was built without it. The text says what to change. It
    /// never contains the URL, which may include a password.
    pub fn from_url(url: &str) -> Result<Self, LockError> {
        let address = Address::parse(url)?;
        match C::TLS {
            TlsSupport::Missing(feature) if address.tls.is_some() => {
                Err(LockError::invalid_url(without_tls(feature)))
            }
            TlsSupport::Missing(_) | TlsSupport::BuiltIn(_) => Ok(Self::new(C::default(), address)),
        }
    }

    /// Creates a builder from an address and a client that is already configured for it.
    pub fn new(client: C, address: Address) -> Self {
        Self {
            client,
            address,
            retention: Some(RETENTION),
            connect_timeout: CONNECT,
            replicas: 0,
            foreign_strings: ForeignStrings::Refused,
            releases: Releases::ByCommands,
            channels: Channels::Sharded,
            worker: None,
            provider: None,
        }
    }

    /// Sets the time for which a lock's fencing counter is kept after a grant, from 1 s to 100 years. The default is 1
    /// h. The first grant in each eighth of it renews the expiry.
    ///
    /// Tokens follow the server's clock and keep increasing after a counter has expired. The retention only limits the
    /// storage for unused names, about 100 bytes each. A counter without an expiry, like one that Redisson created,
    /// keeps none.
    ///
    /// `None` leaves the expiry of a counter unchanged and creates new counters without one. A fleet that shares
    /// *fenced* locks with Redisson needs `None`, since a counter that this library created expires: Redisson restarts
    /// a missing counter at 1, and its tokens are then refused as stale. With any other retention, a counter far behind
    /// the clock is logged as a warning, once per backend.
    pub fn retention(mut self, retention: Option<Duration>) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the time limit for opening and checking a connection. It also applies to each
    /// reconnect. The default is 5 s; zero is refused.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Secures the connections with TLS, even for a `redis://` URL.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.address.tls = Some(tls);
        self
    }

    /// Requires this many replicas to acknowledge (`WAIT`) a grant, a re-entry or a renewal. The default is 0.
    ///
    /// If fewer replicas acknowledge an operation within half of its timeout, its outcome is unknown: an acquire is
    /// repeated or undone, and a hold is suspect until a later renewal is acknowledged. No lease is lost in a failover
    /// if this number covers *all* replicas that may be promoted, and if the server refuses writes while no replica
    /// follows it. Connecting logs a warning unless `min-replicas-to-write` is at least 1 and `min-replicas-max-lag` at
    /// most 10 s. With leases shorter than 30 s, that lag must be at most a third of the lease.
    ///
    /// Supported for a single server with replicas and for Sentinel. A cluster is refused.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Treats a Redis string that is stored under a lock's name and has an expiry as another
    /// holder, until the string expires. Without this option, the name is rejected as a key of the
    /// wrong type.
    ///
    /// Intended for a rolling migration from clients that lock with `SET NX PX`, such as rslock.
    /// During the migration, old and new processes exclude each other. Old clients send no message
    /// on release, so a new one waits until the string expires or until its next poll. Set the
    /// [`poll_interval`](lock_core::LockOptions::poll_interval) to a fraction of a second until the
    /// migration is complete. A string *without* an expiry is still rejected, because it may never
    /// be removed. Inspecting a name that is a string fails in both cases.
    ///
    /// Supported for a single server, Sentinel and a cluster. A quorum is refused.
    pub fn foreign_strings_are_busy(mut self, yes: bool) -> Self {
        self.foreign_strings = if yes { ForeignStrings::Busy } else { ForeignStrings::Refused };
        self
    }

    /// Uses a script for every release. Otherwise, the usual release is `HDEL` and then `PUBLISH`, which is faster and
    /// wakes the waiters of other processes sooner.
    ///
    /// Needed behind a proxy that sends the commands of one connection to several servers, or with a server that
    /// executes them in another order: a waiter that is woken before the lock is free waits until the lease ends.
    pub fn release_by_script(mut self, yes: bool) -> Self {
        self.releases = if yes { Releases::ByScript } else { Releases::ByCommands };
        self
    }

    /// Uses plain channels for the wake-ups in a cluster, even if every master has sharded ones. Each message then goes
    /// to all nodes. All processes that share locks must use the same kind of channel. Redisson uses sharded ones since
    /// 3.28, plain ones before 3.22, and in between either, by chance of each start. Has no effect outside of a
    /// cluster.
    pub fn plain_channels(mut self, yes: bool) -> Self {
        self.channels = if yes { Channels::Plain } else { Channels::Sharded };
        self
    }

    /// Runs the connections in a [`Worker`] instead of the runtime that connects. Factories with
    /// this backend also renew their leases there, so CPU-heavy application tasks do not delay
    /// renewals.
    ///
    /// ```no_run
    /// # use lock_core::{LockError, LockFactory, Worker};
    /// # use lock_redis::{RedisBackendBuilder, client::Client};
    /// # async fn connect<C: Client>() -> Result<(), Box<dyn std::error::Error>> {
    /// let backend = RedisBackendBuilder::<C>::from_url("redis://cache:6379")?.worker(Worker::thread()?).connect().await?;
    /// let locks = LockFactory::new(backend);
    /// # Ok(()) }
    /// ```
    pub fn worker(mut self, worker: Worker) -> Self {
        self.worker = Some(worker);
        self
    }

    /// Obtains the login from the program before each dial, in place of that of the URL. Managed services issue
    /// passwords that expire (IAM tokens), so a connection that is dialled later needs another one.
    ///
    /// A failure or a delay counts as a failed dial, which is repeated. Open connections keep the login with which they
    /// were dialled. The sentinels' login is not affected.
    ///
    /// ```no_run
    /// # use lock_core::LockError;
    /// # use lock_redis::{RedisBackendBuilder, client::{Client, Credentials}};
    /// # async fn token() -> std::io::Result<String> { Ok(String::new()) }
    /// # async fn connect<C: Client>() -> Result<(), LockError> {
    /// let backend = RedisBackendBuilder::<C>::from_url("rediss://cache.example:6379")?
    ///     .credentials(|| async {
    ///         let password = token().await?;
    ///         Ok::<_, std::io::Error>(Credentials { username: Some("app".to_owned()), password: Some(password) })
    ///     })
    ///     .connect()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn credentials<F, A, E>(mut self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let provider = move || -> BoxFuture<'static, _> {
            let asked = ask();
            Box::pin(async move { asked.await.map_err(Into::into) })
        };
        self.provider = Some(Arc::new(provider));
        self
    }

    /// Connects, and checks that the server can store locks and that the user has the required
    /// permissions.
    ///
    /// The connections live in the [`worker`](Self::worker), or in the current tokio runtime; see [`RedisBackend`].
    ///
    /// In a cluster, one master that answers is enough. The others are dialled until they answer and are checked then;
    /// [`ConnectWarning::NotConnected`](crate::ConnectWarning::NotConnected) names them. Wake-up channels are sharded
    /// if every master that answered first is Redis 7 or later; a node that is older is then refused when it answers.
    ///
    /// # Errors
    /// [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if no server responds
    /// in time. [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if a server refuses the password, denies
    /// a permission (named in the text), is too old, or is of a kind that cannot store locks. Settings that are
    /// accepted but can cause locks to be lost are logged, and returned by [`RedisBackend::warnings`].
    /// [`LockErrorKind::NoRuntime`](lock_core::LockErrorKind::NoRuntime) if the worker has ended, or lacks timers or
    /// IO.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect(self) -> Result<RedisBackend<C>, LockError> {
        let (worker, home) = (self.worker.clone(), Home::new(self.worker.clone())?);
        let plan = Arc::new(self.plan(&home)?);
        loop {
            let (plan, may_move) = (plan.clone(), home.may_move());
            match home.run_here(async move { plan.open().await }).await? {
                Ok(opened) => return Ok(RedisBackend::new(opened, home, worker)),
                // A move ends the connections that are being checked. There is only one.
                Err(error) if error.is_retryable() && may_move && !home.may_move() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates a backend without waiting for a server, for programs that must start while there is none.
    ///
    /// It connects in the background, and performs the checks of [`connect`](Self::connect). A failure is logged once,
    /// and the next attempt follows within a second, for as long as the backend exists. This includes refusals, such as
    /// a wrong password or a missing permission.
    ///
    /// Until the first connection is established:
    /// - a request waits up to 300 ms for it, and then fails as [`Unavailable`](lock_core::LockErrorKind::Unavailable)
    ///   without being sent. The error contains the reason of the last failed attempt, also in
    ///   [`LockFactory::health`](lock_core::LockFactory::health);
    /// - a subscription waits;
    /// - [`RedisBackend::warnings`] is empty, and [`RedisBackend::is_connected`] returns `false`.
    ///
    /// ```no_run
    /// # use lock_core::{LockError, LockFactory};
    /// # use lock_redis::{RedisBackendBuilder, client::Client};
    /// # fn start<C: Client>() -> Result<(), LockError> {
    /// let backend = RedisBackendBuilder::<C>::from_url("redis://cache:6379")?.connect_lazy()?;
    /// let locks = LockFactory::new(backend);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if a setting is invalid, or if the address is that
    /// of a quorum: its nodes must be compared before the first lock, since a server with two addresses would have two
    /// votes. [`LockErrorKind::NoRuntime`](lock_core::LockErrorKind::NoRuntime) if the worker lacks timers or IO.
    pub fn connect_lazy(self) -> Result<RedisBackend<C>, LockError> {
        let (worker, home) = (self.worker.clone(), Home::new(self.worker.clone())?);
        if let Topology::Quorum(_) = &self.address.topology {
            return Err(misconfigured(
                "a quorum cannot connect lazily, because its nodes must be compared first; use `distlock::connect`, or \
                 `connect_quorum` of the builder",
            )
            .into());
        }
        Ok(RedisBackend::lazy(self.plan(&home)?, worker))
    }

    /// Validates the settings, and returns what each attempt to connect needs.
    fn plan(mut self, home: &Arc<Home>) -> Result<Plan<C>, BackendError> {
        let (client, login, rules) = (self.checked()?, self.login(), self.rules());
        let Self { address: Address { topology, .. }, replicas, connect_timeout: limit, .. } = self;
        let why = match &topology {
            Topology::Cluster(_) if replicas > 0 => "`replicas` is not supported for a cluster",
            Topology::Quorum(_) => "a quorum has no run ledger; if you need only locks, use `connect_quorum`",
            _ => {
                let home = home.clone();
                return Ok(Plan { client, home, topology, login, limit, rules, replicas });
            }
        };
        Err(misconfigured(why))
    }

    /// Returns the login of the servers.
    pub(crate) fn login(&self) -> Login {
        match &self.provider {
            Some(provider) => Login::Asked(provider.clone()),
            None => Login::Fixed(self.address.credentials.clone()),
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        let Self { retention, foreign_strings, releases, channels, .. } = *self;
        Rules { retention, foreign_strings, releases, channels }
    }

    /// Calls [`connect_quorum`](Self::connect_quorum) for a quorum address, and
    /// [`connect`](Self::connect) for any other address.
    ///
    /// # Errors
    /// Returns the errors of the called method.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect_store(self) -> Result<Store, LockError> {
        match self.address.topology {
            Topology::Quorum(_) => {
                let worker = self.worker.clone();
                let store = Store::from(self.connect_quorum().await?);
                Ok(match worker {
                    Some(worker) => store.on(worker),
                    None => store,
                })
            }
            _ => Ok(self.connect().await?.into()),
        }
    }

    /// Validates the settings and creates the client.
    pub(crate) fn checked(&mut self) -> Result<Arc<C>, BackendError> {
        if self.retention.is_some_and(|retention| !(MIN_RETENTION..=MAX_RETENTION).contains(&retention)) {
            let why = "`retention` must be from 1 s to 100 years, or `None`";
            return Err(misconfigured(why));
        }
        if self.connect_timeout.is_zero() {
            let why = "`connect_timeout` must not be zero";
            return Err(misconfigured(why));
        }
        self.client().map(Arc::new)
    }

    /// Returns the client, with TLS if the address requires it.
    fn client(&mut self) -> Result<C, BackendError> {
        let mut client = std::mem::take(&mut self.client);
        if let Some(tls) = &self.address.tls {
            match C::TLS {
                TlsSupport::BuiltIn(secure) => secure(&mut client, tls)?,
                TlsSupport::Missing(feature) => return Err(misconfigured(&without_tls(feature))),
            }
        }
        Ok(client)
    }
}

impl<C: Client> RedisBackend<C> {
    /// Connects to `redis://[user:password@]host[:port][/database]`, or to another form of [`Address`], with the
    /// defaults of [`RedisBackendBuilder`].
    ///
    /// # Errors
    /// Returns the errors of [`RedisBackendBuilder::from_url`] and
    /// [`RedisBackendBuilder::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        RedisBackendBuilder::from_url(url)?.connect().await
    }

    /// Connects to `redlock://[user:password@]host[:port],…[/database]` with the defaults of [`RedisBackendBuilder`].
    ///
    /// # Errors
    /// Returns the errors of [`RedisBackendBuilder::from_url`] and
    /// [`RedisBackendBuilder::connect_quorum`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect_quorum(url: &str) -> Result<QuorumBackend, LockError> {
        RedisBackendBuilder::<C>::from_url(url)?.connect_quorum().await
    }
}

fn without_tls(feature: &str) -> String {
    format!("this program was built without TLS; enable {feature}")
}

impl<C> fmt::Debug for RedisBackendBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration is omitted because it contains the password.
        f.debug_struct("RedisBackendBuilder")
            .field("retention", &self.retention)
            .field("connect_timeout", &self.connect_timeout)
            .field("replicas", &self.replicas)
            .field("foreign_strings", &self.foreign_strings)
            .field("releases", &self.releases)
            .field("channels", &self.channels)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}
