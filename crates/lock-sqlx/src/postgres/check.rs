//! The checks of a new connection, and the creation of the tables.

use super::{
    error::{failed, unconnected},
    place::Place,
    statements::{POOL_SCHEMA, SCHEMA, SCHEMA_VERSION, Tables},
};
use crate::connections::misconfigured;
use lock_core::{
    backend::{Applied, BackendError, BackendErrorKind},
    clock::UtcTime,
};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// The oldest version with `as materialized`.
const OLDEST_SERVER: i32 = 120_000;

/// Reads the settings of the server, the version of the tables, and the clock.
const LOOK: &str = "
select current_setting('server_version_num')::int, current_setting('fsync'),
    current_setting('default_transaction_isolation'), pg_is_in_recovery(), pg_postmaster_start_time()::text,
    to_regclass('distlock_meta') is not null, (extract(epoch from clock_timestamp()) * 1000000)::bigint";

const VERSION: &str = "select version from distlock_meta";

/// Names the tables that this user may not use.
const RIGHTS: &str = "
select string_agg(name, ', ') from unnest(array['distlock_lock', 'distlock_fence', 'distlock_card', 'distlock_run']) name
where not (has_table_privilege(name, 'select') and has_table_privilege(name, 'insert')
    and has_table_privilege(name, 'update') and has_table_privilege(name, 'delete'))";

/// A server that passed the checks.
pub(super) struct Checked {
    /// The time at which it was started, which tells it from others.
    pub(super) started: String,
    pub(super) now: UtcTime,
}

/// Checks that locks on this server are safe, and that this user may take them.
pub(super) async fn check(connection: &mut PgConnection, tables: &Tables) -> Result<Checked, BackendError> {
    let failed = |error| failed("check the server", error).with_applied(Applied::No);
    // A pooler gives a transaction one connection to the server. Dropped, it is rolled back.
    let mut connection = connection.begin().await.map_err(failed)?;
    type Look = (i32, String, String, bool, String, bool, i64);
    let look = sqlx::query_as(tables.name(LOOK)).persistent(false).fetch_one(&mut *connection).await;
    let (server, fsync, isolation, is_standby, started, has_tables, now): Look = look.map_err(failed)?;
    if server < OLDEST_SERVER {
        return Err(misconfigured("the server is older than PostgreSQL 12: update it"));
    }
    if fsync != "on" {
        return Err(misconfigured(
            "the server has `fsync = off`, and would lose grants in a crash of its machine: turn it on",
        ));
    }
    if isolation != "read committed" {
        return Err(misconfigured(
            "the `default_transaction_isolation` of this user or database is not `read committed`: set it for this \
             user with `alter role … set default_transaction_isolation = 'read committed'`",
        ));
    }
    if is_standby {
        let message = "the server is a standby, which is read-only: connect to the primary";
        return Err(BackendError::new(BackendErrorKind::Unavailable, Applied::No, message));
    }
    if !has_tables {
        return Err(misconfigured(
            "the database has no tables for locks that this user can see: create them with `distlock::sql::migrate(url)`, \
             or connect with `?migrate=true`; if they exist, grant this user the usage of their schema",
        ));
    }
    let rights: Option<String> = sqlx::query_scalar(tables.name(RIGHTS))
        .persistent(false)
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
    if let Some(missing) = rights {
        let message = format!(
            "this user may not use the tables: `grant select, insert, update, delete on {missing} to …`, and `grant \
             select on distlock_meta to …`"
        );
        return Err(BackendError::new(BackendErrorKind::Denied, Applied::No, message));
    }
    let version = sqlx::query_scalar(tables.name(VERSION)).persistent(false);
    let version: i32 = version.fetch_one(&mut *connection).await.map_err(failed)?;
    connection.rollback().await.map_err(failed)?;
    if version > SCHEMA_VERSION {
        return Err(misconfigured(format!(
            "the tables have version {version}, and this program knows {SCHEMA_VERSION}: update the program"
        )));
    }
    Ok(Checked { started, now: UtcTime::from_micros(u64::try_from(now).unwrap_or(0)) })
}

/// Creates the tables that are missing.
pub(super) async fn create_tables(place: &Place) -> Result<(), BackendError> {
    let tables = place.tables();
    let failed = |error| {
        let error = failed("create the tables", error);
        match error.kind() {
            BackendErrorKind::Denied => {
                let message = "this user may not create the tables or their schema: let its owner call \
                               `distlock::sql::migrate(url)`";
                BackendError::new(error.kind(), error.applied(), message).with_source(error)
            }
            _ => error,
        }
    };
    let connection = PgConnection::connect_with(&place.options).await;
    let mut connection = connection.map_err(|error| unconnected(&place.options, error))?;
    let mut tx = connection.begin().await.map_err(failed)?;
    // Two programs that create a table at the same time would fail.
    let alone = sqlx::query("select pg_advisory_xact_lock(hashtext('distlock'))").execute(&mut *tx).await;
    alone.map_err(failed)?;
    let look = "select to_regclass('distlock_meta') is not null, to_regclass('distlock_pool') is not null";
    let look = sqlx::query_as(tables.name(look)).fetch_one(&mut *tx).await;
    let (has_tables, has_pools): (bool, bool) = look.map_err(failed)?;
    if !has_tables {
        let exists = "select $1::text is null or exists (select from pg_namespace where nspname = $1)";
        let exists = sqlx::query_scalar(exists).bind(place.schema.clone()).fetch_one(&mut *tx).await;
        // Its creation needs a right, even if it exists.
        if let (Some(schema), false) = (&place.schema, exists.map_err(failed)?) {
            let create = AssertSqlSafe(format!("create schema \"{schema}\""));
            sqlx::raw_sql(create).execute(&mut *tx).await.map_err(failed)?;
        }
        sqlx::raw_sql(tables.name(SCHEMA)).execute(&mut *tx).await.map_err(failed)?;
    }
    if !has_pools {
        sqlx::raw_sql(tables.name(POOL_SCHEMA)).execute(&mut *tx).await.map_err(failed)?;
    }
    tx.commit().await.map_err(failed)
}
