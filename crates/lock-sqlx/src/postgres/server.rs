//! The server: its connections, its clock, and its restarts.

use super::{
    check::check,
    error::{failed, is_rolled_back, unconnected},
    place::Place,
    statements::Statements,
};
use crate::{
    columns::micros,
    connections::{Connections, Lent},
};
use lock_core::{
    __private::{ServerClock, lock},
    LockName,
    backend::{BackendError, ProcessId, Submission, SubscriptionRegistry},
    clock::UtcTime,
};
use sqlx::{
    AssertSqlSafe, Connection as _, PgConnection, Postgres, Row as _,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, atomic::AtomicU32},
};
use tokio::{sync::Notify, time::Instant};

/// The number of connections for all but acquires and batches of renewals, which may wait for rows.
const UPKEEP: usize = 2;

/// The number of connections for the run ledger. The transactions that write wait for one another in the server.
const LEDGER: usize = 2;

/// A server, as the clones of a backend share it.
pub(super) struct Server {
    pub(super) place: Place,
    pub(super) statements: Statements,
    /// For acquires, which wait for the disk, and for transactions of the application that end with a fence.
    pub(super) grants: Connections<PgConnection>,
    /// For batches of renewals, which wait for nobody.
    pub(super) renewals: Connections<PgConnection>,
    pub(super) upkeep: Connections<PgConnection>,
    /// For operations on pools.
    pub(super) pools: Connections<PgConnection>,
    /// For transactions of the run ledger.
    pub(super) ledger: Connections<PgConnection>,
    /// For its renewals and heartbeats.
    pub(super) beats: Connections<PgConnection>,
    pub(super) watchers: SubscriptionRegistry,
    clock: ServerClock,
    /// The time at which the server was started.
    started: Mutex<Option<String>>,
    /// Tells the clients of the database that wait.
    pub(super) id: String,
    pub(super) releases: AtomicU32,
    /// The operations that wait for their turn, by pool. A pool has an entry while a task serves it.
    pub(super) pool_queues: Mutex<HashMap<LockName, VecDeque<Submission>>>,
    pub(super) pool_writes: AtomicU32,
    /// The releases of each watched lock that were reported, if this client looks for them.
    pub(super) reported: Mutex<HashMap<LockName, i64>>,
    /// The time of the last subscription or release that it has seen.
    pub(super) active: Mutex<Instant>,
    /// The time at which the row of each lock last said that this client waits for it.
    pub(super) noted: Mutex<HashMap<LockName, Instant>>,
    /// Raised by each subscription.
    pub(super) subscribed: Notify,
}

impl Server {
    pub(super) fn new(place: Place) -> Self {
        Self {
            statements: Statements::of(&place.tables()),
            grants: Connections::new(place.connections),
            renewals: Connections::new(1),
            upkeep: Connections::new(UPKEEP),
            pools: Connections::new(place.connections),
            ledger: Connections::new(LEDGER),
            beats: Connections::new(1),
            watchers: SubscriptionRegistry::default(),
            clock: ServerClock::default(),
            started: Mutex::default(),
            id: ProcessId::random().to_string(),
            releases: AtomicU32::new(0),
            pool_queues: Mutex::default(),
            pool_writes: AtomicU32::new(0),
            reported: Mutex::default(),
            active: Mutex::new(Instant::now()),
            noted: Mutex::default(),
            subscribed: Notify::new(),
            place,
        }
    }

    pub(super) fn now(&self) -> Option<UtcTime> {
        self.clock.now()
    }

    /// Opens the first connection.
    pub(super) async fn check(&self) -> Result<(), BackendError> {
        let connection = self.open().await?;
        self.grants.keep(connection);
        Ok(())
    }

    /// Opens a connection, and checks the server.
    async fn open(&self) -> Result<PgConnection, BackendError> {
        let options = &self.place.options;
        let opened = PgConnection::connect_with(options).await;
        let mut connection = opened.map_err(|error| unconnected(options, error))?;
        let sent = Instant::now();
        let checked = check(&mut connection, &self.place.tables()).await?;
        self.clock.learn(sent, checked.now);
        let before = lock(&self.started).replace(checked.started.clone());
        if before.is_some_and(|before| before != checked.started) {
            tracing::warn!("postgres server was started again, or another one took its place");
            self.watchers.server_restarted();
        }
        Ok(connection)
    }

    /// Lends a connection. Waits while all are lent.
    pub(super) async fn lend<'c>(
        &self,
        from: &'c Connections<PgConnection>,
    ) -> Result<Lent<'c, PgConnection>, BackendError> {
        from.lend(self.open()).await
    }

    /// Executes a statement, and returns all its rows once it is committed.
    pub(super) async fn execute(
        &self,
        connections: &Connections<PgConnection>,
        what: &str,
        statement: Query<'static, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, BackendError> {
        self.try_execute(connections, statement).await?.map_err(|error| failed(what, error))
    }

    /// The same, but an error of the statement is returned as it is.
    pub(super) async fn try_execute(
        &self,
        connections: &Connections<PgConnection>,
        statement: Query<'static, Postgres, PgArguments>,
    ) -> Result<Result<Vec<PgRow>, sqlx::Error>, BackendError> {
        let mut lent = self.lend(connections).await?;
        let (connection, sent) = (&mut lent.connection, Instant::now());
        let rows = match self.place.has_pooler {
            true => in_transaction(connection, statement).await,
            // All: the first rows arrive before the transaction is committed.
            false => statement.fetch_all(connection).await,
        };
        if rows.as_ref().is_err_and(|error| !is_rolled_back(error)) {
            return Ok(rows);
        }
        if let Ok(Some(Ok(now))) = rows.as_ref().map(|rows| rows.first().map(|row| row.try_get("us"))) {
            self.clock.learn(sent, micros(now));
        }
        lent.give_back();
        Ok(rows)
    }
}

/// Executes a statement in a transaction by name, over one connection of a pooler.
async fn in_transaction(
    connection: &mut PgConnection,
    statement: Query<'static, Postgres, PgArguments>,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut tx = connection.begin().await?;
    match statement.persistent(false).fetch_all(&mut *tx).await {
        Ok(rows) => tx.commit().await.map(|()| rows),
        Err(error) => {
            tx.rollback().await?;
            Err(error)
        }
    }
}

/// Begins a statement.
pub(super) fn statement(text: &Arc<str>) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(text.clone()))
}
