//! Locks in a MySQL or MariaDB database.
//!
//! Each operation is one request. It runs in the keeper, where the connections live.

mod check;
mod directory;
mod error;
mod leases;
mod place;
mod server;
mod statements;

pub(crate) use self::place::Place;
use self::server::Server;
use crate::{
    connections::{in_time, run},
    renewals::renew,
};
use async_trait::async_trait;
use lock_core::{
    __private::{decode_card, encode_card, no_runtime},
    LockError, LockName, Store, Worker,
    backend::{
        AcquireRequest, Acquired, AsyncBackend, BackendError, Capabilities, Connector, Directory,
        ForceReleaseRequest, ForceReleased, Inspected, ProcessId, ReleaseRequest, Released, RenewRequest,
        Renewed, Reply,
    },
    clock::UtcTime,
    inspect::{ListLimits, Listing, ProcessCard},
};
use std::{fmt, sync::Arc, time::Duration};

/// Locks in a MariaDB or MySQL database.
///
/// Created by [`connect`](Self::connect). The tables are created by [`migrate`](crate::migrate), or by connecting with
/// `?migrate=true`. Clones share their connections, which close with the last clone.
///
/// It is tested with MariaDB 10.11. The statements are those of MySQL 8 as well, with which it is not tested.
///
/// # Guarantees
/// The [store rules](lock_core::backend::Backend#contract) apply. Each operation is one request with one transaction, at
/// READ COMMITTED. Leases are judged by the clock of the server.
///
/// - Grants, renewals and releases are on the disk of the server before they are reported. After a failover to a replica,
///   a lock that was granted in the last moments may be granted again; its token is greater.
/// - A lock is not granted while a transaction of the application that ended with a [`fence`](crate::fence()) is open.
///
/// # Wake-ups
/// The server cannot push. Waiters ask every 250 ms at the latest, and after a second of consecutive holds, a process leaves
/// the lock to others for 300 ms.
///
/// # Connections
/// Up to 4 for acquires (`?connections=`), 2 for releases, and 1 for renewals. They are opened when they are needed. They
/// have settings of their own, so they must not be those of a pooler that shares them, such as ProxySQL.
///
/// # Stored data
/// The tables `distlock_lock`, `distlock_fence`, `distlock_card` and `distlock_meta`. The row of a name is deleted after its
/// fencing counter has expired, 1 h after the last grant unless the lock [sets another time](lock_core::Retention).
#[derive(Clone)]
pub struct MySqlBackend {
    inner: Arc<Inner>,
}

struct Inner {
    server: Arc<Server>,
    keeper: Worker,
}

impl MySqlBackend {
    /// Connects to the database of a URL, and checks it.
    ///
    /// The URL is `mysql://user:password@host:3306/database`, with the parameters `ssl-mode`, `ssl-ca`, `ssl-cert`,
    /// `ssl-key` and `socket` of sqlx, and these:
    ///
    /// | parameter | default | |
    /// | --- | --- | --- |
    /// | `migrate` | `false` | `true` creates the tables if they are missing |
    /// | `connections` | 4 | the number of connections for acquires |
    ///
    /// # Errors
    /// - [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL cannot be used;
    /// - [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if the tables are missing, or were written by a
    ///   newer version of this crate, if the login is refused or a right is missing, if
    ///   `innodb_flush_log_at_trx_commit` is not 1, or if the server is part of a Galera cluster;
    /// - [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if the server cannot be reached or is
    ///   read-only.
    ///
    /// It takes at most 5 s.
    ///
    /// # Cancel safety
    /// Cancel safe. The tables may have been created.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        let place = Place::parse(url)?;
        let backend = Self::start(place.clone())?;
        let server = backend.inner.server.clone();
        let checked = async move {
            if place.migrates {
                check::create_tables(&place).await?;
            }
            server.check().await
        };
        backend.run(in_time(checked)).await?;
        Ok(backend)
    }

    /// Uses the database of a URL without connecting yet. Each request tries to connect until that succeeds.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl), like [`connect`](Self::connect), and for
    /// `?migrate=true`.
    pub fn connect_lazy(url: &str) -> Result<Self, LockError> {
        let place = Place::parse(url)?;
        if place.migrates {
            return Err(LockError::invalid_url(
                "`migrate` needs a connection: call `distlock::sql::migrate(url)`, or connect at once",
            ));
        }
        Self::start(place)
    }

    fn start(place: Place) -> Result<Self, LockError> {
        let keeper = Worker::keeper().map_err(|error| no_runtime(error.to_string()))?;
        Ok(Self { inner: Arc::new(Inner { server: Arc::new(Server::new(place)), keeper }) })
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> Result<T, BackendError> {
        run(&self.inner.keeper, work).await
    }

    fn server(&self) -> Arc<Server> {
        self.inner.server.clone()
    }
}

/// Creates the tables.
pub(crate) async fn migrate(url: &str) -> Result<(), LockError> {
    Ok(in_time(check::create_tables(&Place::parse(url)?)).await?)
}

impl fmt::Debug for MySqlBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.inner.server.place.options;
        f.debug_struct("MySqlBackend")
            .field("host", &options.get_host())
            .field("port", &options.get_port())
            .field("database", &options.get_database())
            .finish_non_exhaustive()
    }
}

impl From<MySqlBackend> for Store {
    fn from(backend: MySqlBackend) -> Self {
        let backend = Arc::new(backend);
        Self::polling(backend.clone()).with_directory(backend)
    }
}

#[async_trait]
impl AsyncBackend for MySqlBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("mysql")
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        self.inner.server.now()
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let server = self.server();
        self.run(async move { server.acquire(request).await }).await
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let (server, number) = (self.server(), items.len());
        let renewed = self.run(async move { Ok(renew(&*server, items).await) }).await;
        renewed.unwrap_or_else(|error| vec![Err(error); number])
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let server = self.server();
        self.run(async move { server.release(request).await }).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let server = self.server();
        self.run(async move { server.inspect(name).await }).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let server = self.server();
        self.run(async move { server.force_release(request).await }).await
    }
}

#[async_trait]
impl Directory for MySqlBackend {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        let server = self.server();
        self.run(async move { server.write_card(process, encode_card(&card), ttl).await }).await
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        let server = self.server();
        self.run(async move { server.remove_card(process).await }).await
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        let server = self.server();
        let card = self.run(async move { server.read_card(process).await }).await?;
        Ok(card.and_then(|card| decode_card(&card)))
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        let server = self.server();
        self.run(async move { server.list(prefix, limits).await }).await
    }
}

/// Connects URLs like `mysql://user:password@host/database`, for [`Connectors`](lock_core::Connectors).
#[derive(Debug, Clone, Copy, Default)]
pub struct MySql;

#[async_trait]
impl Connector for MySql {
    fn schemes(&self) -> &[&'static str] {
        place::SCHEMES
    }

    async fn connect(&self, url: &str) -> Result<Store, LockError> {
        Ok(MySqlBackend::connect(url).await?.into())
    }

    fn connect_lazy(&self, url: &str) -> Result<Store, LockError> {
        Ok(MySqlBackend::connect_lazy(url)?.into())
    }
}
