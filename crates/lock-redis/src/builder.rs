//! The settings for a backend, and the setup of its connections.

use crate::{
    backend::RedisBackend,
    check::{self, ConnectWarning, Expected},
    client::{Client, PubSub, Tls, TlsSupport},
    clock::ServerClock,
    cluster::{self, ClusterHandle},
    connection::{Dialer, ManagedConnection, Purpose, Target},
    error::misconfigured,
    route::{OneServer, Route},
    sentinel::{Follower, Sentinels},
    shared::Shared,
    topology::Topology,
    url::Address,
    wake::Subscriptions,
};
use lock_core::{LockError, Store, Worker, backend::BackendError};
use std::{fmt, sync::Arc, time::Duration};

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
}

/// The channels of wake-ups in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    /// Sharded ones if every master has them.
    Sharded,
    Plain,
}

/// The commands of the usual release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Releases {
    /// `HDEL` and `PUBLISH`, which the server executes in this order.
    ByCommands,
    ByScript,
}

/// The treatment of a lock name whose key holds a string with an expiry, as other lock implementations store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignStrings {
    Refused,
    Busy,
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
        }
    }

    /// Sets the time for which a lock's fencing counter is kept after a grant, from 1 s to 100 years. The default is 1 h.
    /// The first grant in each eighth of it renews the expiry.
    ///
    /// Tokens follow the server's clock and keep increasing after a counter has expired. The
    /// retention only limits the storage for unused names, about 100 bytes each. A counter without an expiry, like one that
    /// Redisson created, keeps none.
    ///
    /// `None` leaves the expiry of a counter unchanged and creates new counters without one. A fleet that shares
    /// *fenced* locks with Redisson needs `None`, since a counter that this library created expires: Redisson restarts a
    /// missing counter at 1, and its tokens are then refused as stale. With any other retention, a counter far behind the clock is logged as a warning, once per
    /// backend.
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

    /// Uses plain channels for the wake-ups in a cluster, even if every master has sharded ones. Each message then goes to all
    /// nodes. All processes that share locks must use the same kind of channel. Redisson uses sharded ones since 3.28,
    /// plain ones before 3.22, and in between either, by chance of each start. Has no effect outside of a cluster.
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

    /// Connects, and checks that the server can store locks and that the user has the required
    /// permissions.
    ///
    /// The connections live in the [`worker`](Self::worker), or in the current tokio runtime, and end with it.
    ///
    /// # Errors
    /// [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if no server responds
    /// in time. [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if the server refuses
    /// the password, denies a permission (named in the text), is too old, or is of a kind that
    /// cannot store locks. Settings that are accepted but can cause locks to be lost are logged,
    /// and returned by [`RedisBackend::warnings`].
    /// [`LockErrorKind::NoRuntime`](lock_core::LockErrorKind::NoRuntime) if the worker has ended.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect(self) -> Result<RedisBackend<C>, LockError> {
        match self.worker.clone() {
            Some(worker) => worker.run(self.open()).await?,
            None => self.open().await,
        }
    }

    async fn open(mut self) -> Result<RedisBackend<C>, LockError> {
        let client = self.checked()?;
        let (rules, limit) = (self.rules(), self.connect_timeout);
        let Self { address: Address { topology, credentials, .. }, replicas, worker, .. } = self;
        let target = match topology {
            Topology::Standalone(endpoint) => Target::Fixed(endpoint),
            Topology::Sentinel(address) => {
                Target::Master(Arc::new(Sentinels::new(client.clone(), address, limit)))
            }
            Topology::Cluster(_) if replicas > 0 => {
                return Err(misconfigured("`replicas` is not supported for a cluster").into());
            }
            Topology::Cluster(seeds) => {
                let settings = cluster::Settings { client, seeds, credentials, limit, rules };
                let (cluster, warnings) = Box::pin(ClusterHandle::connect(settings)).await?;
                return Ok(RedisBackend::new(Route::Cluster(cluster), warnings, worker));
            }
            Topology::Quorum(_) => {
                let why = "a quorum has no run ledger; if you need only locks, use `connect_quorum`";
                return Err(misconfigured(why).into());
            }
        };
        let dialer = Dialer { client, target, credentials, limit, lost: None, admission: None };
        let settings = Settings { rules, replicas, expected: Expected::Master };
        let (server, warnings) = one_server(Arc::new(dialer), settings).await?;
        Ok(RedisBackend::new(Route::One(server), warnings, worker))
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

/// The settings for operations, which are the same for all servers of a backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The retention for locks that do not set their own.
    pub(crate) retention: Option<Duration>,
    pub(crate) foreign_strings: ForeignStrings,
    pub(crate) releases: Releases,
    pub(crate) channels: Channels,
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
