//! The checks of a new connection, and the creation of the tables.

use super::{
    error::{failed, unconnected},
    place::Place,
    statements::{SCHEMA, SCHEMA_VERSION, SETTINGS, statement},
};
use crate::connections::misconfigured;
use lock_core::backend::{Applied, BackendError, BackendErrorKind};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _};

/// The oldest versions with `skip locked`.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

/// Reads the version of the server, whether it is read-only, when it writes a commit to the disk, and the clock.
const LOOK: &str = "
select version(), cast(@@global.read_only as signed), cast(@@global.innodb_flush_log_at_trx_commit as signed), :now;";

/// Answers a row if the server is part of a cluster in which several servers write.
const CLUSTER: &str = "
show global variables where variable_name = 'wsrep_on' and value = 'ON'
    or variable_name = 'group_replication_single_primary_mode' and value = 'OFF'";

/// Uses each right on the tables, without an effect, and reads their version.
const PROBE: &str = "
select 1 from distlock_lock where false for update;
update distlock_lock set depth = 0 where false;
insert into distlock_lock (name) select '' from dual where false;
delete from distlock_lock where false;
update distlock_fence set first = 0 where false;
insert into distlock_fence select '', '', 0, 0 from dual where false;
delete from distlock_fence where false;
update distlock_card set expires_ms = 0 where false;
insert into distlock_card select '', '', 0 from dual where false;
delete from distlock_card where false;
select cast(max(version) as signed) from distlock_meta;";

/// Sets up a connection, and checks that locks on its server are safe, and that this user may take them. Returns the
/// server's time.
pub(super) async fn check(connection: &mut MySqlConnection) -> Result<i64, BackendError> {
    let failed = |error| failed("check the server", error).with_applied(Applied::No);
    sqlx::raw_sql(SETTINGS).execute(&mut *connection).await.map_err(failed)?;
    let look = sqlx::raw_sql(AssertSqlSafe(statement(LOOK, &[]))).fetch_one(&mut *connection).await;
    let look = look.map_err(failed)?;
    let version: String = look.try_get(0).map_err(failed)?;
    let (is_read_only, flushes, now): (i64, i64, i64) = (
        look.try_get(1).map_err(failed)?,
        look.try_get(2).map_err(failed)?,
        look.try_get(3).map_err(failed)?,
    );
    if is_too_old(&version) {
        return Err(misconfigured("the server is older than MariaDB 10.6 or MySQL 8.0: update it"));
    }
    if is_read_only != 0 {
        let message = "the server is read-only, such as a replica: connect to the primary";
        return Err(BackendError::new(BackendErrorKind::Unavailable, Applied::No, message));
    }
    // 3 is a mode of MariaDB with even more flushes.
    if ![1, 3].contains(&flushes) {
        return Err(misconfigured(format!(
            "the server has `innodb_flush_log_at_trx_commit = {flushes}`, and would lose grants in a crash: set it to 1"
        )));
    }
    let cluster = sqlx::raw_sql(CLUSTER).fetch_optional(&mut *connection).await.map_err(failed)?;
    if cluster.is_some() {
        return Err(misconfigured(
            "the server is part of a cluster in which several servers write, and do not keep rows locked for each other: \
             use a server with replicas",
        ));
    }
    let probe = sqlx::raw_sql(PROBE).fetch_optional(&mut *connection).await.map_err(failed)?;
    let version = probe.and_then(|row| row.try_get::<Option<i64>, _>(0).ok().flatten()).unwrap_or(0);
    match version {
        SCHEMA_VERSION => Ok(now),
        0 => Err(misconfigured("the table distlock_meta is empty: call `distlock::sql::migrate(url)`")),
        newer => Err(misconfigured(format!(
            "the tables have version {newer}, and this program knows {SCHEMA_VERSION}: update the program"
        ))),
    }
}

/// Reads versions such as `8.0.36` and `10.11.6-MariaDB-1`.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    number < if version.contains("MariaDB") { OLDEST_MARIADB } else { OLDEST_MYSQL }
}

/// Creates the tables that are missing. An update of the program will change those of an earlier version here.
pub(super) async fn create_tables(place: &Place) -> Result<(), BackendError> {
    let failed = |error| {
        let error = failed("create the tables", error);
        match error.kind() {
            BackendErrorKind::Denied => {
                let message = "this user may not create the tables: let the owner of the database call \
                               `distlock::sql::migrate(url)`";
                BackendError::new(error.kind(), error.applied(), message).with_source(error)
            }
            _ => error,
        }
    };
    let mut connection = MySqlConnection::connect_with(&place.options)
        .await
        .map_err(|error| unconnected(&place.options, error))?;
    sqlx::raw_sql(SETTINGS).execute(&mut connection).await.map_err(failed)?;
    sqlx::raw_sql(SCHEMA).execute(&mut connection).await.map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared() {
        for (version, old) in [
            ("5.7.44", true),
            ("8.0.36", false),
            ("8.4.0-log", false),
            ("9.1.0", false),
            ("10.5.29-MariaDB", true),
            ("10.11.6-MariaDB-0+deb12u1", false),
            ("11.4.2-MariaDB", false),
        ] {
            assert_eq!(is_too_old(version), old, "{version}");
        }
    }
}
