//! The server: its connections, its clock, and the requests to it.

use super::{
    check::{check, create_tables},
    error::{failed, unconnected},
    place::Place,
    statements::{Value, statement},
};
use crate::{
    columns::{micros, misunderstood},
    connections::Connections,
};
use lock_core::{__private::ServerClock, backend::BackendError, clock::UtcTime};
use sqlx::{AssertSqlSafe, Connection as _, FromRow, MySqlConnection, Row as _, mysql::MySqlRow};
use std::{fmt, sync::atomic::AtomicU32};
use tokio::{sync::Notify, time::Instant};

/// The number of connections for all but acquires and batches of renewals.
const UPKEEP: usize = 2;

/// A server, as the clones of a backend share it.
pub(super) struct Server {
    pub(super) place: Place,
    /// For acquires, which wait for the disk.
    pub(super) grants: Connections<MySqlConnection>,
    /// For batches of renewals.
    pub(super) renewals: Connections<MySqlConnection>,
    pub(super) upkeep: Connections<MySqlConnection>,
    clock: ServerClock,
    pub(super) releases: AtomicU32,
    /// Expired rows are to be deleted.
    pub(super) sweeps: Notify,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(place: Place) -> Self {
        Self {
            grants: Connections::new(place.connections),
            renewals: Connections::new(1),
            upkeep: Connections::new(UPKEEP),
            clock: ServerClock::default(),
            releases: AtomicU32::new(0),
            sweeps: Notify::new(),
            place,
        }
    }

    pub(super) fn now(&self) -> Option<UtcTime> {
        self.clock.now()
    }

    /// Opens the first connection, and creates the tables if the URL says so.
    pub(super) async fn check(&self) -> Result<(), BackendError> {
        if self.place.migrates {
            create_tables(&self.place).await?;
        }
        let connection = self.open().await?;
        self.grants.keep(connection);
        Ok(())
    }

    /// Opens a connection, and checks the server.
    async fn open(&self) -> Result<MySqlConnection, BackendError> {
        let options = &self.place.options;
        let opened = MySqlConnection::connect_with(options).await;
        let mut connection = opened.map_err(|error| unconnected(options, error))?;
        let sent = Instant::now();
        let now = check(&mut connection).await?;
        self.clock.learn(sent, micros(now));
        Ok(connection)
    }

    /// Sends statements in one request, and returns all their rows once the last one has ended.
    pub(super) async fn execute(
        &self,
        connections: &Connections<MySqlConnection>,
        what: &str,
        text: &str,
        values: &[(&str, Value<'_>)],
    ) -> Result<Vec<MySqlRow>, BackendError> {
        self.send(connections, what, statement(text, values)).await
    }

    /// The same for a text with its values. The connection is closed after an error, which ends its transaction.
    pub(super) async fn send(
        &self,
        connections: &Connections<MySqlConnection>,
        what: &str,
        text: String,
    ) -> Result<Vec<MySqlRow>, BackendError> {
        let mut lent = connections.lend(self.open()).await?;
        let sent = Instant::now();
        let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut lent.connection).await;
        let rows = rows.map_err(|error| failed(what, error))?;
        if let Some(Ok(now)) = rows.first().map(|row| row.try_get("us")) {
            self.clock.learn(sent, micros(now));
        }
        lent.give_back();
        Ok(rows)
    }
}

pub(super) fn only<T: for<'r> FromRow<'r, MySqlRow>>(rows: &[MySqlRow]) -> Result<T, BackendError> {
    decode(rows.first().ok_or_else(misunderstood)?)
}

pub(super) fn decode<T: for<'r> FromRow<'r, MySqlRow>>(row: &MySqlRow) -> Result<T, BackendError> {
    T::from_row(row).map_err(|error| misunderstood().with_source(error))
}
