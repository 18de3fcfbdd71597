//! Locks in a PostgreSQL database.
//!
//! Each operation on a lock is one statement; those on a pool read and write its row. They run in the keeper, where the
//! connections live.

mod check;
mod directory;
mod error;
mod leases;
mod ledger;
mod place;
mod pools;
mod server;
mod statements;
mod wakes;

use self::{leases::Leases, ledger::Ledger, place::Place, server::Server, wakes::Wakes};
use crate::connections::{in_time, run};
use async_trait::async_trait;
use lock_core::{
    __private::{decode_card, encode_card, no_runtime},
    LockError, LockName, Store, Worker,
    backend::{
        Backend, BackendError, BackendErrorKind, Capabilities, Connector, Directory, ForceReleaseRequest,
        ForceReleased, Inspected, ProcessId, Reply, Submission, SubscriberId, Subscriptions, WakeListener,
    },
    clock::UtcTime,
    inspect::{ListLimits, Listing, ProcessCard},
};
use lock_ledger::{LedgerConnector, RunLedger, stored::StoredLedger};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

/// Locks in a PostgreSQL database.
///
/// Created by [`connect`](Self::connect). The tables are created by [`migrate`](crate::migrate), or by connecting with
/// `?migrate=true`. Clones share their connections, which close with the last clone.
///
/// # Guarantees
/// The [store rules](lock_core::backend::Backend#contract) apply. Each operation is one statement, at READ COMMITTED.
/// Leases are judged by the clock of the server.
///
/// An operation on a semaphore, a read-write lock or a fair lock reads its row, and writes it if no other client did so
/// meanwhile. Those of one process that come together share both. A pool that many processes change all the time makes
/// them try again; several pools do not disturb one another.
///
/// - Grants and renewals are on the disk of the server before they are reported, whatever `synchronous_commit` says, and
///   on its synchronous standbys, if it has any. After a failover to an asynchronous standby, a lock that was granted in
///   the last moments may be granted again; its token is greater.
/// - Releases are not. After a crash of the server, a release of the last second may be undone: then the lease runs out.
/// - A lock is not granted while a transaction of the application that ended with a [`fence`](crate::fence()) is open.
///
/// # Wake-ups
/// A release wakes the waiters of all processes with NOTIFY, if somebody waits.
///
/// # Connections
/// Up to 4 for acquires (`?connections=`), 2 for releases, 1 for renewals, 1 that listens while something waits, and 4 for
/// semaphores, read-write locks and fair locks (`?connections=`). They are opened when they are needed.
///
/// A pooler that assigns connections to transactions, such as pgbouncer in that mode, needs `?pooler=true`. Then each
/// operation is a transaction by name, with statements that have none, which takes two more round trips, and processes
/// that wait look for releases every 100 ms to 1 s. The tables must be created over a direct connection.
///
/// # Stored data
/// The tables `distlock_lock`, `distlock_fence`, `distlock_pool`, `distlock_card`, `distlock_run` and `distlock_meta`. An
/// earlier version of this crate created no `distlock_pool`, which only semaphores, read-write locks and fair locks need:
/// [`migrate`](crate::migrate) adds it. The row of a name is deleted after its fencing counter has expired, 1 h after the last grant unless the lock [sets another time](lock_core::Retention).
#[derive(Clone)]
pub struct PostgresBackend {
    inner: Arc<Inner>,
}

struct Inner {
    server: Arc<Server>,
    wakes: Wakes,
    leases: Arc<dyn Backend>,
    keeper: Worker,
}

impl PostgresBackend {
    /// Connects to the database of a URL, and checks it.
    ///
    /// The URL is `postgres://user:password@host:5432/database`, with the parameters of sqlx, such as `sslmode`, and
    /// these:
    ///
    /// | parameter | default | |
    /// | --- | --- | --- |
    /// | `schema` | the server's choice | the schema of the tables: letters a to z, digits and `_` |
    /// | `migrate` | `false` | `true` creates the tables if they are missing |
    /// | `pooler` | `false` | `true` for a pooler that assigns connections to transactions |
    /// | `connections` | 4 | the number of connections for acquires |
    ///
    /// # Errors
    /// - [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL cannot be used;
    /// - [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if the tables are missing, or were written by a
    ///   newer version of this crate, if the login is refused or a right is missing, or if `fsync` is off or the default
    ///   isolation is not READ COMMITTED;
    /// - [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if the server cannot be reached or is a
    ///   standby.
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
            let created = match place.migrates {
                true => check::create_tables(&place).await,
                false => Ok(()),
            };
            match created {
                // Another user may have created the tables of locks, which need none of a later version.
                Err(error) if error.kind() == BackendErrorKind::Denied => {
                    server.check().await.map_err(|_| error)
                }
                created => {
                    created?;
                    server.check().await
                }
            }
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
        let server = Arc::new(Server::new(place));
        let wakes = Wakes::new(server.clone(), keeper.clone());
        let leases = Leases { server: server.clone(), keeper: keeper.clone() };
        let leases = Store::polling(Arc::new(leases)).backend;
        Ok(Self { inner: Arc::new(Inner { server, wakes, leases, keeper }) })
    }

    /// Returns the run ledger of the same database, for a scheduler. It opens up to 3 further connections.
    #[must_use]
    pub fn ledger(&self) -> Arc<dyn RunLedger> {
        Arc::new(StoredLedger::new(Ledger { server: self.server(), keeper: self.inner.keeper.clone() }))
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

impl fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.inner.server.place.options;
        f.debug_struct("PostgresBackend")
            .field("host", &options.get_host())
            .field("port", &options.get_port())
            .field("database", &options.get_database())
            .finish_non_exhaustive()
    }
}

impl From<PostgresBackend> for Store {
    fn from(backend: PostgresBackend) -> Self {
        let backend = Arc::new(backend);
        Self::new(backend.clone()).pushing(backend.clone()).with_directory(backend)
    }
}

#[async_trait]
impl Backend for PostgresBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("postgres").with_permits()
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        self.inner.server.now()
    }

    fn submit(&self, submission: Submission) {
        match submission.operation().name().is_pool() {
            true => self.inner.server.submit_to_pool(&self.inner.keeper, submission),
            false => self.inner.leases.submit(submission),
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let server = self.server();
        match name.is_pool() {
            true => self.run(async move { server.inspect_pool(name).await }).await,
            false => self.inner.leases.inspect(name).await,
        }
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let server = self.server();
        match request.name.is_pool() {
            true => self.run(async move { server.force_release_of_pool(request).await }).await,
            false => self.inner.leases.force_release(request).await,
        }
    }
}

#[async_trait]
impl Subscriptions for PostgresBackend {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.inner.server.watchers.forget_gone();
        self.inner.server.watchers.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.server.watchers.subscribe(subscriber, name.clone());
        self.inner.wakes.begin().await?;
        let server = self.server();
        self.run(async move { server.watch(&[name]).await }).await
    }

    /// The note in the row ends by itself.
    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.server.watchers.unsubscribe(subscriber, &name);
        Ok(())
    }
}

#[async_trait]
impl Directory for PostgresBackend {
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
        Ok(card.and_then(|card| decode_card(card.as_bytes())))
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        let server = self.server();
        self.run(async move { server.list(prefix, limits).await }).await
    }
}

/// Connects URLs like `postgres://user:password@host/database`, for [`Connectors`](lock_core::Connectors).
#[derive(Debug, Clone, Copy, Default)]
pub struct Postgres;

#[async_trait]
impl Connector for Postgres {
    fn schemes(&self) -> &[&'static str] {
        &["postgres", "postgresql"]
    }

    async fn connect(&self, url: &str) -> Result<Store, LockError> {
        Ok(PostgresBackend::connect(url).await?.into())
    }

    fn connect_lazy(&self, url: &str) -> Result<Store, LockError> {
        Ok(PostgresBackend::connect_lazy(url)?.into())
    }
}

#[async_trait]
impl LedgerConnector for Postgres {
    async fn connect_with_ledger(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        let backend = PostgresBackend::connect(url).await?;
        let ledger = backend.ledger();
        Ok((backend.into(), ledger))
    }

    fn connect_with_ledger_lazy(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        let backend = PostgresBackend::connect_lazy(url)?;
        let ledger = backend.ledger();
        Ok((backend.into(), ledger))
    }
}
