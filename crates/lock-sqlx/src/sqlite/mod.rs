//! Locks in an SQLite file.
//!
//! One task has the only connection. It takes the requests that have arrived, and executes them in one transaction:
//! it reads the rows, applies the store rules of lock-core, and writes the rows that have changed. It also sees which
//! locks other processes have released.

mod clock;
mod directory;
mod error;
mod file;
mod ledger;
mod row;
mod rows;
mod task;

use self::task::{Ask, Job};
use async_trait::async_trait;
use file::Place;
use lock_core::{
    __private::{decode_card, encode_card, no_runtime},
    LockError, LockName, Store, Worker,
    backend::{
        Applied, Backend, BackendError, BackendErrorKind, Capabilities, Connector, Directory,
        ForceReleaseRequest, ForceReleased, Inspected, ProcessId, Reply, Submission, SubscriberId,
        SubscriptionRegistry, Subscriptions, WakeListener,
    },
    clock::UtcTime,
    inspect::{ListLimits, Listing, ProcessCard},
};
use lock_ledger::{
    GroupName, LedgerConnector, RunLedger,
    stored::{Access, PartStore, Step, StoredLedger},
};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Locks in an SQLite file, for the processes of one machine. They need no server.
///
/// Created by [`connect`](Self::connect), which creates the file and its tables if they are missing. Clones share one
/// connection, which closes with the last clone.
///
/// # Guarantees
/// The [store rules](lock_core::backend::Backend#contract) apply, each operation in a transaction of its own or
/// together with others. Leases are judged by a clock of the file, read while its write lock is held. On Linux it
/// counts from the start of the machine, so steps of the wall clock change nothing.
///
/// - A lease survives the crash of any process. After a power failure, the last leases may be missing; their holders
///   have ended as well. With `?synchronous=full`, every grant is on the disk before it is reported.
/// - A file has one writer at a time. A write transaction of the application in the same file must be shorter than a
///   third of the lease, and a process that is stopped inside one stops all others.
/// - If the file is replaced, its holders lose their locks (`Lost(Gone)`) with the next request.
///
/// # Wake-ups
/// A release wakes the waiters of its process immediately. While a task waits, each process asks SQLite every 2 to 20
/// ms whether another one has written (`pragma data_version`): the longer nothing happens, the less often.
///
/// # Stored data
/// The file is put into WAL mode, which adds the files `-wal` and `-shm` beside it. The tables are `distlock_lock`,
/// `distlock_pool` (of semaphores, read-write locks and fair locks; added to a file of an earlier version), `distlock_run`, `distlock_card` and `distlock_meta`. The row of a name is deleted after its fencing counter
/// has expired, 1 h after the last grant unless the lock [sets another time](lock_core::Retention).
#[derive(Clone)]
pub struct SqliteBackend {
    inner: Arc<Inner>,
}

struct Inner {
    place: Place,
    jobs: mpsc::UnboundedSender<Job>,
    watchers: Arc<SubscriptionRegistry>,
}

impl SqliteBackend {
    /// Opens the file of a URL, and creates it if it does not exist.
    ///
    /// The URL is `sqlite:` and a path, with `%` escapes. A relative path is resolved now, in the working folder of
    /// this process, so other processes need the same one. `?synchronous=full` makes each grant wait for the disk; the
    /// default is `normal`.
    ///
    /// # Errors
    /// - [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL names no file or has an unknown
    ///   parameter;
    /// - [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if the file cannot be opened or written, is on a
    ///   network file system, is not a database, or was written by a newer version of this crate;
    /// - [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if another process keeps its write lock.
    ///
    /// # Cancel safety
    /// Cancel safe. The file may have been created.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        let place = Place::parse(url)?;
        let connection = place.open().await?;
        Self::start(place, Some(connection))
    }

    /// Uses the file of a URL without opening it yet. Each request tries to open it until that succeeds.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl), like [`connect`](Self::connect).
    pub fn connect_lazy(url: &str) -> Result<Self, LockError> {
        Self::start(Place::parse(url)?, None)
    }

    fn start(place: Place, connection: Option<file::Open>) -> Result<Self, LockError> {
        let keeper = Worker::keeper().map_err(|error| no_runtime(error.to_string()))?;
        let (jobs, queue) = mpsc::unbounded_channel();
        let watchers = Arc::new(SubscriptionRegistry::default());
        let task = task::Task::new(place.clone(), connection, watchers.clone(), keeper.clone());
        keeper.handle().spawn(task.run(queue));
        Ok(Self { inner: Arc::new(Inner { place, jobs, watchers }) })
    }

    /// Returns the run ledger of the same file, for a scheduler. Its records, and with them the grants of locks, are on the
    /// disk before they are reported.
    #[must_use]
    pub fn ledger(&self) -> Arc<dyn RunLedger> {
        Arc::new(StoredLedger::new(Ledger(self.clone())))
    }

    /// Asks the task something, and waits for its answer.
    async fn ask<T>(&self, job: impl FnOnce(Ask<T>) -> Job) -> Result<T, BackendError> {
        let (reply, answer) = oneshot::channel();
        // If the task has ended, the answer is dropped.
        let _ = self.inner.jobs.send(job(reply));
        answer.await.unwrap_or_else(|_| {
            let message = "the task of the sqlite store has ended: create a new store";
            Err(BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message))
        })
    }
}

impl fmt::Debug for SqliteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBackend").field("file", &self.inner.place.path()).finish_non_exhaustive()
    }
}

impl From<SqliteBackend> for Store {
    fn from(backend: SqliteBackend) -> Self {
        let backend = Arc::new(backend);
        Self::new(backend.clone()).pushing(backend.clone()).with_directory(backend)
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("sqlite").with_permits()
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        Some(self.inner.place.now())
    }

    fn submit(&self, submission: Submission) {
        // If the task has ended, the submission is dropped, which reports an unknown outcome.
        let _ = self.inner.jobs.send(Job::Lease(submission));
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.ask(|reply| Job::Inspect(name, reply)).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.ask(|reply| Job::Force(request, reply)).await
    }
}

#[async_trait]
impl Subscriptions for SqliteBackend {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.inner.watchers.forget_gone();
        self.inner.watchers.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.watchers.subscribe(subscriber, name.clone());
        self.ask(|reply| Job::Watch(name, reply)).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.watchers.unsubscribe(subscriber, &name);
        Ok(())
    }
}

#[async_trait]
impl Directory for SqliteBackend {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        self.ask(|reply| Job::WriteCard { process, card: encode_card(&card), ttl, reply }).await
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        self.ask(|reply| Job::RemoveCard(process, reply)).await
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        let card = self.ask(|reply| Job::ReadCard(process, reply)).await?;
        Ok(card.and_then(|card| decode_card(card.as_bytes())))
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        self.ask(|reply| Job::List { prefix, limits, reply }).await
    }
}

/// The ledger of a file.
#[derive(Debug)]
struct Ledger(SqliteBackend);

#[async_trait]
impl PartStore for Ledger {
    fn now(&self) -> Option<UtcTime> {
        Some(self.0.inner.place.now())
    }

    async fn transact(&self, group: GroupName, access: Access, step: Step) -> Result<(), BackendError> {
        self.0.ask(|reply| Job::Transact { group, access, step, reply }).await
    }
}

/// Connects URLs like `sqlite:/var/lib/shop/locks.db`, for [`Connectors`](lock_core::Connectors).
#[derive(Debug, Clone, Copy, Default)]
pub struct Sqlite;

#[async_trait]
impl Connector for Sqlite {
    fn schemes(&self) -> &[&'static str] {
        &["sqlite"]
    }

    async fn connect(&self, url: &str) -> Result<Store, LockError> {
        Ok(SqliteBackend::connect(url).await?.into())
    }

    fn connect_lazy(&self, url: &str) -> Result<Store, LockError> {
        Ok(SqliteBackend::connect_lazy(url)?.into())
    }
}

#[async_trait]
impl LedgerConnector for Sqlite {
    async fn connect_with_ledger(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        let backend = SqliteBackend::connect(url).await?;
        let ledger = backend.ledger();
        Ok((backend.into(), ledger))
    }

    fn connect_with_ledger_lazy(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        let backend = SqliteBackend::connect_lazy(url)?;
        let ledger = backend.ledger();
        Ok((backend.into(), ledger))
    }
}
