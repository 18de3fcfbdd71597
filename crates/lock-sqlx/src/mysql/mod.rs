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

use self::{place::Place, server::Server};
use crate::connections::in_time;
use async_trait::async_trait;
use lock_core::{
    __private::{OnWorker, no_runtime},
    LockError, Store, Worker,
    backend::Connector,
};
use std::{fmt, sync::Arc};

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
    inner: Arc<OnWorker<Server>>,
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
    ///   newer version of this crate, if the database does not exist, the login is refused or a right is missing, if the
    ///   server is older than MariaDB 10.6 or MySQL 8.0, if `innodb_flush_log_at_trx_commit` is not 1, or if the server is
    ///   part of a cluster in which several servers write;
    /// - [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if the server cannot be reached or is
    ///   read-only.
    ///
    /// It takes at most 5 s.
    ///
    /// # Cancel safety
    /// Cancel safe. The tables may have been created.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        let place = Place::parse(url)?;
        let backend = Self::start(place)?;
        let check = async |server: Arc<Server>| in_time(server.check()).await;
        backend.inner.run(check).await?;
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
        let sweeping = server.clone();
        let inner = OnWorker::new(server, keeper).beside(async move |ended| {
            tokio::select! {
                () = sweeping.sweep_when_due() => {}
                _ = ended => {}
            }
        });
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// Creates the tables.
pub(crate) async fn migrate(url: &str) -> Result<(), LockError> {
    Ok(in_time(check::create_tables(&Place::parse(url)?)).await?)
}

impl fmt::Debug for MySqlBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.inner.inner().place.options;
        f.debug_struct("MySqlBackend")
            .field("host", &options.get_host())
            .field("port", &options.get_port())
            .field("database", &options.get_database())
            .finish_non_exhaustive()
    }
}

impl From<MySqlBackend> for Store {
    fn from(backend: MySqlBackend) -> Self {
        Self::polling(backend.inner.clone()).with_directory(backend.inner)
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
