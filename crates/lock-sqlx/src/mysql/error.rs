//! Errors of MySQL and MariaDB as errors of a store, each with its remedy.

use lock_core::backend::{Applied, BackendError, BackendErrorKind as Kind};
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};

/// The error of a request that was sent.
pub(super) fn failed(what: &str, error: sqlx::Error) -> BackendError {
    describe(what, None, error)
}

/// The error of a connection that could not be opened.
pub(super) fn unconnected(options: &MySqlConnectOptions, error: sqlx::Error) -> BackendError {
    let (host, port) = (options.get_host(), options.get_port());
    match &error {
        sqlx::Error::Io(cause) => {
            let message = format!("failed to connect to the server of mysql at {host}:{port}: {cause}");
            BackendError::new(Kind::Unavailable, Applied::No, message).with_source(error)
        }
        _ => describe(&format!("connect to {host}:{port}"), Some(Applied::No), error),
    }
}

/// Error numbers: <https://mariadb.com/docs/server/reference/error-codes>
fn describe(what: &str, applied: Option<Applied>, error: sqlx::Error) -> BackendError {
    let number = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    // The transaction of a statement that fails for one of these reasons is not committed: the connection is closed.
    let (kind, known, remedy) = match (number.map(MySqlDatabaseError::number), &error) {
        (Some(1146), _) => (
            Kind::Misconfigured,
            Applied::No,
            ": the tables are missing; create them with `distlock::sql::migrate(url)`, or connect with `?migrate=true`",
        ),
        (Some(1142 | 1143), _) => (
            Kind::Denied,
            Applied::No,
            ": grant select, insert, update and delete on the tables distlock_lock, distlock_fence and distlock_card, and \
             select on distlock_meta, to this user",
        ),
        (Some(1044), _) => (
            Kind::Denied,
            Applied::No,
            ": this user has no right on the database: grant the rights on its tables",
        ),
        (Some(1045 | 1698), _) => (Kind::Denied, Applied::No, ": the login was refused"),
        (Some(1049 | 1046), _) => (Kind::Misconfigured, Applied::No, ": the database does not exist"),
        (Some(1290 | 1792 | 1836), _) => (
            Kind::Unavailable,
            Applied::No,
            ": the server is read-only, such as a replica; connect to the primary",
        ),
        (Some(1020 | 1205 | 1213), _) => {
            (Kind::Unavailable, Applied::No, ": another transaction keeps the row; end it sooner")
        }
        (Some(1665), _) => (
            Kind::Misconfigured,
            Applied::No,
            ": the server has `binlog_format = STATEMENT`: set it to `ROW` or `MIXED`",
        ),
        (Some(1040 | 1203 | 1226), _) => (
            Kind::Unavailable,
            Applied::No,
            ": the server has no connection left; raise `max_connections`, or lower `?connections=`",
        ),
        (Some(1054 | 1136), _) => {
            (Kind::Misconfigured, Applied::No, ": the tables are not those that this version created")
        }
        (Some(1021 | 1114), _) => (Kind::Unavailable, Applied::Unknown, ": the disk of the server is full"),
        (_, sqlx::Error::Tls(_)) => {
            (Kind::Misconfigured, Applied::No, ": for TLS, enable a `tls-…` feature of sqlx in your program")
        }
        (None, sqlx::Error::Configuration(_)) => (
            Kind::Misconfigured,
            Applied::No,
            ": this way to log in needs TLS, a socket, or the feature `mysql-rsa` of sqlx in your program",
        ),
        _ => (Kind::Unavailable, Applied::Unknown, ""),
    };
    let message = format!("failed to {what} in mysql{remedy}");
    BackendError::new(kind, applied.unwrap_or(known), message).with_source(error)
}
