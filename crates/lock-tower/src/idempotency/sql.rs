//! Records in an SQLite or PostgreSQL table, with the same statements for both.

use super::{
    attempt::Attempt,
    request::Fingerprint,
    store::{BeginRequest, Begun, IdempotencyStore, StoreError},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::time::{SystemTime, UNIX_EPOCH};

/// Starts or repeats an attempt and returns its number, or no row if the record does not allow the
/// attempt.
///
/// Parameters: name, fingerprint, token, expiry, now.
const BEGIN: &str = "
insert into idempotency_records as r (name, fingerprint, token, attempts, expires_at) values ($1, $2, $3, 1, $4)
on conflict (name) do update set
    fingerprint = excluded.fingerprint, token = excluded.token, expires_at = excluded.expires_at,
    attempts = case when r.expires_at <= $5 then 1 else r.attempts + 1 end,
    status = null, headers = null, body = null
where r.expires_at <= $5
    or (r.status is null and r.token < excluded.token and r.fingerprint = excluded.fingerprint)
returning attempts";

const READ: &str = "select fingerprint, status, headers, body from idempotency_records where name = $1";

/// Parameters: name, token, status, headers, body.
const COMPLETE: &str = "
update idempotency_records set status = $3, headers = $4, body = $5 where name = $1 and token = $2 and status is null";

/// Parameters: name, token.
const OWNED: &str = "select name from idempotency_records where name = $1 and token = $2 and status is null";

const ABANDON: &str = "delete from idempotency_records where name = $1 and token = $2 and status is null";

const PURGE: &str = "delete from idempotency_records where expires_at <= $1";

/// The maximum number of times that an attempt is begun. A record can be removed after it rejected
/// the attempt and before it is read.
const MAX_READS: usize = 3;

/// The statements that create the table and its index, with the database's type for bytes.
macro_rules! schema {
    ($blob:literal) => {
        concat!(
            "create table if not exists idempotency_records (\n",
            "    name text primary key,\n",
            "    fingerprint ",
            $blob,
            " not null,\n",
            "    token bigint not null,\n",
            "    attempts bigint not null,\n",
            "    expires_at bigint not null, -- seconds since 1970\n",
            "    status bigint, -- null until there is an answer\n",
            "    headers ",
            $blob,
            ",\n",
            "    body ",
            $blob,
            "\n",
            ");\n",
            "create index if not exists idempotency_records_expiry on idempotency_records (expires_at);\n",
        )
    };
}

/// Generates a store for one of sqlx's databases. The trait bounds of a store that is generic over sqlx databases would
/// be longer than all stores. `$create` returns the statements that create the table on a connection.
macro_rules! sql_store {
    ($(#[$doc:meta])* $store:ident, $pool:ty, $connection:ty, $create:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $store {
            pool: $pool,
        }

        impl $store {
            /// Creates a store on this connection pool. The table must exist.
            #[must_use]
            pub fn new(pool: $pool) -> Self {
                Self { pool }
            }

            /// Creates the table, if it does not exist. Several servers can call it at the same
            /// time.
            ///
            /// # Errors
            /// [`StoreError::Failed`] if the database does not respond or returns an error.
            ///
            /// # Cancel safety
            /// A dropped call may leave the table without its index. The next call completes it.
            pub async fn create_table(&self) -> Result<(), StoreError> {
                let mut connection = self.pool.acquire().await.map_err(StoreError::failed)?;
                let create: fn(&$connection) -> Result<&'static str, StoreError> = $create;
                let create = create(&connection)?;
                let mut created = sqlx::raw_sql(create).execute(&mut *connection).await;
                if let Err(sqlx::Error::Database(_)) = created {
                    // PostgreSQL fails, despite `if not exists`, if another server creates the table at the same time.
                    created = sqlx::raw_sql(create).execute(&mut *connection).await;
                }
                created.map(drop).map_err(StoreError::failed)
            }

            /// Removes the records that have expired by `now`, and returns their number. Call it
            /// from a periodic job, about once an hour. Expired records are never used again, but
            /// stay in the table.
            ///
            /// # Errors
            /// [`StoreError::Failed`] if the database does not respond or returns an error.
            ///
            /// # Cancel safety
            /// A dropped call removes all expired records or none.
            pub async fn purge(&self, now: SystemTime) -> Result<u64, StoreError> {
                let purge = sqlx::query(PURGE).bind(seconds(now)).execute(&self.pool).await;
                Ok(purge.map_err(StoreError::failed)?.rows_affected())
            }

            /// Checks on a transaction's connection that no newer attempt of the key has begun, and that there is no
            /// response yet. For handlers that have an effect outside of the database, such as a charge: an attempt
            /// that lost its lock may run on, and a newer one may have told the client that nothing was done. Call it
            /// in the transaction that writes the intent of the effect.
            ///
            /// # Errors
            /// - [`StoreError::Superseded`] if the record already has a response, was removed, or belongs to another
            ///   attempt;
            /// - [`StoreError::Failed`] if the database does not respond or returns an error.
            ///
            /// # Cancel safety
            /// Dropping the call leaves the transaction open. The caller must roll it back.
            pub async fn check_in(connection: &mut $connection, attempt: &Attempt) -> Result<(), StoreError> {
                let owned = sqlx::query(OWNED)
                    .bind(attempt.name().as_str())
                    .bind(attempt.fencing_token().as_i64())
                    .fetch_optional(connection)
                    .await;
                owned.map_err(StoreError::failed)?.map(drop).ok_or(StoreError::Superseded)
            }

            /// Stores an attempt's response on a transaction's connection, so that the work and its
            /// response are committed together or not at all; see
            /// [`recorded_by_handler`](crate::idempotency::IdempotencyLayer::recorded_by_handler).
            /// Roll back on any error.
            ///
            /// # Errors
            /// - [`StoreError::Superseded`] if the record already has a response, was removed, or belongs to another
            ///   attempt;
            /// - [`StoreError::Failed`] if the database does not respond or returns an error.
            ///
            /// # Cancel safety
            /// Dropping the call leaves the transaction open. The caller must roll it back.
            pub async fn complete_in(
                connection: &mut $connection,
                attempt: &Attempt,
                answer: &Response<Bytes>,
            ) -> Result<(), StoreError> {
                let update = sqlx::query(COMPLETE)
                    .bind(attempt.name().as_str())
                    .bind(attempt.fencing_token().as_i64())
                    .bind(i64::from(answer.status().as_u16()))
                    .bind(write_headers(answer.headers()))
                    .bind(answer.body().as_ref())
                    .execute(connection)
                    .await;
                match update.map_err(StoreError::failed)?.rows_affected() {
                    0 => Err(StoreError::Superseded),
                    _ => Ok(()),
                }
            }
        }

        #[async_trait]
        impl IdempotencyStore for $store {
            async fn begin(&self, request: &BeginRequest) -> Result<Begun, StoreError> {
                let name = request.name.as_str();
                for _ in 0..MAX_READS {
                    let started: Option<i64> = sqlx::query_scalar(BEGIN)
                        .bind(name)
                        .bind(request.fingerprint.as_bytes().as_slice())
                        .bind(request.token.as_i64())
                        .bind(seconds(request.expires_at))
                        .bind(seconds(request.now))
                        .fetch_optional(&self.pool)
                        .await
                        .map_err(StoreError::failed)?;
                    if let Some(number) = started {
                        return Ok(Begun::Started { number: u32::try_from(number).unwrap_or(u32::MAX) });
                    }
                    let read = sqlx::query_as(READ).bind(name).fetch_optional(&self.pool).await;
                    if let Some(record) = read.map_err(StoreError::failed)? {
                        return decide(record, &request.fingerprint);
                    }
                    // The record was removed between the two statements.
                }
                Ok(Begun::Superseded)
            }

            async fn complete(&self, attempt: &Attempt, answer: &Response<Bytes>) -> Result<(), StoreError> {
                let mut connection = self.pool.acquire().await.map_err(StoreError::failed)?;
                Self::complete_in(&mut connection, attempt, answer).await
            }

            async fn abandon(&self, attempt: &Attempt) -> Result<(), StoreError> {
                sqlx::query(ABANDON)
                    .bind(attempt.name().as_str())
                    .bind(attempt.fencing_token().as_i64())
                    .execute(&self.pool)
                    .await
                    .map_err(StoreError::failed)?;
                Ok(())
            }
        }
    };
}

#[cfg(feature = "sqlite")]
sql_store! {
    /// A store with records in an SQLite table, for servers on one machine.
    ///
    /// A handler that [records its responses
    /// itself](crate::idempotency::IdempotencyLayer::recorded_by_handler) must begin its
    /// transaction with `pool.begin_with("begin immediate")`. Otherwise, the transaction can fail with
    /// `SQLITE_BUSY` at its first write.
    SqliteIdempotencyStore, sqlx::SqlitePool, sqlx::SqliteConnection, |_| Ok(Self::SCHEMA)
}

#[cfg(feature = "sqlite")]
impl SqliteIdempotencyStore {
    /// The statements that create the table and its index, if they do not exist. Add them to your migrations, or
    /// call [`create_table`](Self::create_table).
    pub const SCHEMA: &str = schema!("blob");
}

#[cfg(feature = "postgres")]
sql_store! {
    /// A store with records in a PostgreSQL table.
    PostgresIdempotencyStore, sqlx::PgPool, sqlx::PgConnection, |_| Ok(Self::SCHEMA)
}

#[cfg(feature = "postgres")]
impl PostgresIdempotencyStore {
    /// The statements that create the table and its index, if they do not exist. Add them to your migrations, or
    /// call [`create_table`](Self::create_table).
    pub const SCHEMA: &str = schema!("bytea");
}

#[cfg(feature = "sqlx-any")]
sql_store! {
    /// A store with records in an SQLite or PostgreSQL table, through sqlx's `Any`, for a program that is told at its
    /// start which database to use.
    ///
    /// The program enables the databases as features of sqlx, and calls `sqlx::any::install_default_drivers()` before
    /// it connects. A handler that [records its responses
    /// itself](crate::idempotency::IdempotencyLayer::recorded_by_handler) must begin its transaction on SQLite with
    /// `pool.begin_with("begin immediate")`, a statement that PostgreSQL does not have. Otherwise, the transaction can
    /// fail with `SQLITE_BUSY` at its first write.
    AnyIdempotencyStore, sqlx::AnyPool, sqlx::AnyConnection, |connection| match connection.backend_name() {
        "SQLite" => Ok(Self::SQLITE_SCHEMA),
        "PostgreSQL" => Ok(Self::POSTGRES_SCHEMA),
        other => Err(StoreError::failed(format!("{other} cannot keep idempotency records: use SQLite or PostgreSQL"))),
    }
}

#[cfg(feature = "sqlx-any")]
impl AnyIdempotencyStore {
    /// The statements that create the table and its index in SQLite, if they do not exist. Add them to your migrations,
    /// or call [`create_table`](Self::create_table).
    pub const SQLITE_SCHEMA: &str = schema!("blob");

    /// The statements that create the table and its index in PostgreSQL, if they do not exist. Add them to your
    /// migrations, or call [`create_table`](Self::create_table).
    pub const POSTGRES_SCHEMA: &str = schema!("bytea");
}

/// A row: fingerprint, status, headers, body. Without a status, there is no response yet.
type Row = (Vec<u8>, Option<i64>, Option<Vec<u8>>, Option<Vec<u8>>);

/// Returns the result of an attempt that did not start because of this row.
fn decide((stored, status, headers, body): Row, mine: &Fingerprint) -> Result<Begun, StoreError> {
    if stored != mine.as_bytes() {
        return Ok(Begun::Mismatch);
    }
    let Some(status) = status else { return Ok(Begun::Superseded) };
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let mut answer = Response::new(Bytes::from(body.unwrap_or_default()));
    *answer.status_mut() = status.ok_or_else(unreadable)?;
    *answer.headers_mut() = read_headers(&headers.unwrap_or_default()).ok_or_else(unreadable)?;
    Ok(Begun::Answered(answer))
}

fn unreadable() -> StoreError {
    StoreError::failed("the stored response cannot be read (was it written by another program?)")
}

/// Writes headers in HTTP/1 format. Values contain no line feeds.
fn write_headers(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value.as_bytes());
        lines.push(b'\n');
    }
    lines
}

fn read_headers(lines: &[u8]) -> Option<HeaderMap> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (line.get(..colon)?, line.get(colon + 2..)?);
            Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
        })
        .collect()
}

/// Returns the whole seconds since 1970.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
