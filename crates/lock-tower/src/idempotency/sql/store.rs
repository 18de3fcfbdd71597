//! The stores of both databases, from one text.

use super::{ABANDON, BEGIN, COMPLETE, PURGE, READ, row};
use crate::idempotency::{
    attempt::Attempt,
    store::{BeginRequest, Begun, IdempotencyStore, StoreError},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use std::time::SystemTime;

/// The number of times that a record may vanish between a refused attempt and its reading.
const MAX_READS: usize = 3;

/// sqlx's bounds for a store over any database are longer than both stores.
macro_rules! sql_store {
    ($(#[$doc:meta])* $store:ident, $pool:ty, $connection:ty, $blob:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $store {
            pool: $pool,
        }

        impl $store {
            /// The statements that create the table and its index, if they do not exist. Add them to your migrations, or
            /// call [`create_table`](Self::create_table).
            pub const SCHEMA: &str = concat!(
                "create table if not exists idempotency_records (\n",
                "    name text primary key,\n",
                "    fingerprint ", $blob, " not null,\n",
                "    token bigint not null,\n",
                "    attempts bigint not null,\n",
                "    expires_at bigint not null, -- seconds since 1970\n",
                "    status bigint, -- null until there is an answer\n",
                "    headers ", $blob, ",\n",
                "    body ", $blob, "\n",
                ");\n",
                "create index if not exists idempotency_records_expiry on idempotency_records (expires_at);\n",
            );

            /// Creates a store on this connection pool. The table must exist.
            #[must_use]
            pub fn new(pool: $pool) -> Self {
                Self { pool }
            }

            /// Creates the table, if it does not exist. Several servers may call it at the same time.
            ///
            /// # Errors
            /// [`StoreError::Failed`].
            ///
            /// # Cancel safety
            /// A dropped call may leave the table without its index. The next call completes it.
            pub async fn create_table(&self) -> Result<(), StoreError> {
                let mut created = sqlx::raw_sql(Self::SCHEMA).execute(&self.pool).await;
                if let Err(sqlx::Error::Database(_)) = created {
                    // PostgreSQL fails, despite `if not exists`, if another server creates the table at the same time.
                    created = sqlx::raw_sql(Self::SCHEMA).execute(&self.pool).await;
                }
                created.map(drop).map_err(StoreError::failed)
            }

            /// Removes the records that have expired by `now`, and returns their number. Call it from a job, about once
            /// an hour: an expired record is never used again, but stays in the table.
            ///
            /// # Errors
            /// [`StoreError::Failed`].
            ///
            /// # Cancel safety
            /// A dropped call removes all of them or none.
            pub async fn purge(&self, now: SystemTime) -> Result<u64, StoreError> {
                let purge = sqlx::query(PURGE).bind(row::seconds(now)).execute(&self.pool).await;
                Ok(purge.map_err(StoreError::failed)?.rows_affected())
            }

            /// Stores the response of an attempt on the connection of a transaction, which commits both the work and
            /// its response, or neither; see
            /// [`recorded_by_handler`](crate::idempotency::IdempotencyLayer::recorded_by_handler). Roll back on any
            /// error.
            ///
            /// # Errors
            /// [`StoreError::Superseded`] if a newer attempt owns the key; [`StoreError::Failed`].
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
                    .bind(row::write_headers(answer.headers()))
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
                        .bind(row::seconds(request.expires_at))
                        .bind(row::seconds(request.now))
                        .fetch_optional(&self.pool)
                        .await
                        .map_err(StoreError::failed)?;
                    if let Some(number) = started {
                        return Ok(Begun::Started { number: u32::try_from(number).unwrap_or(u32::MAX) });
                    }
                    let read = sqlx::query_as(READ).bind(name).fetch_optional(&self.pool).await;
                    if let Some(record) = read.map_err(StoreError::failed)? {
                        return row::decide(record, &request.fingerprint);
                    }
                    // It was freed or purged between the two statements.
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
    /// Records in an SQLite table, for the servers of one machine.
    ///
    /// A handler that [records its responses itself](crate::idempotency::IdempotencyLayer::recorded_by_handler) must
    /// begin its transaction with `pool.begin_with("begin immediate")`: a transaction whose first write comes later may
    /// fail as busy.
    SqliteIdempotencyStore, sqlx::SqlitePool, sqlx::SqliteConnection, "blob"
}

#[cfg(feature = "postgres")]
sql_store! {
    /// Records in a PostgreSQL table.
    PostgresIdempotencyStore, sqlx::PgPool, sqlx::PgConnection, "bytea"
}
