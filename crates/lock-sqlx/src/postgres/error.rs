//! Errors of PostgreSQL as errors of a store, each with its remedy.

use lock_core::backend::{Applied, BackendError, BackendErrorKind as Kind};
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgSeverity};

/// SQLSTATE codes. <https://www.postgresql.org/docs/current/errcodes-appendix.html>
pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";
pub(super) const MISSING_TABLE: &str = "42P01";

/// The error of a statement that was sent.
pub(super) fn failed(what: &str, error: sqlx::Error) -> BackendError {
    let applied = if is_rolled_back(&error) { Applied::No } else { Applied::Unknown };
    describe(what, applied, error)
}

/// The error of a connection that could not be opened.
pub(super) fn unconnected(options: &PgConnectOptions, error: sqlx::Error) -> BackendError {
    let (host, port) = (options.get_host(), options.get_port());
    match &error {
        sqlx::Error::Io(cause) => {
            let message = format!("failed to connect to the server of postgres at {host}:{port}: {cause}");
            BackendError::new(Kind::Unavailable, Applied::No, message).with_source(error)
        }
        _ => describe(&format!("connect to {host}:{port}"), Applied::No, error),
    }
}

fn describe(what: &str, applied: Applied, error: sqlx::Error) -> BackendError {
    let (kind, remedy) = match (sqlstate(&error).as_deref(), &error) {
        (Some(MISSING_TABLE), _) => (
            Kind::Misconfigured,
            ": a table is missing, such as that of semaphores in a database of an earlier version; create it with \
             `distlock::sql::migrate(url)`, or connect with `?migrate=true`",
        ),
        (Some("42501"), _) => (
            Kind::Denied,
            ": grant select, insert, update and delete on the tables distlock_lock, distlock_fence, distlock_card, \
             distlock_run and (for semaphores, read-write locks and fair locks) distlock_pool, select on distlock_meta, and usage of their schema, to this user",
        ),
        (Some("3D000"), _) => (Kind::Misconfigured, ": the database does not exist"),
        (Some("25006"), _) => {
            (Kind::Unavailable, ": the server is read-only, such as a standby; connect to the primary")
        }
        (Some(LOCK_NOT_AVAILABLE), _) => {
            (Kind::Unavailable, ": another transaction keeps the row; end it sooner")
        }
        (Some("26000" | "42P05" | "08P01"), _) => (
            Kind::Misconfigured,
            ": a pooler that assigns connections to transactions needs `?pooler=true` in the URL",
        ),
        (Some("22021"), _) => (Kind::Unsupported, ": a text contains a NUL character; escape it"),
        (Some("53100"), _) => (Kind::Unavailable, ": the disk of the server is full"),
        (Some("53300"), _) => (
            Kind::Unavailable,
            ": the server has no connection left; raise `max_connections`, or lower `?connections=`",
        ),
        (Some(state), _) if state.starts_with("28") => (Kind::Denied, ": the login was refused"),
        (Some(state), _) if state.starts_with("42") => {
            (Kind::Misconfigured, ": the tables are not those that this version created")
        }
        (_, sqlx::Error::Tls(_)) => {
            (Kind::Misconfigured, ": for TLS, enable a `tls-…` feature of sqlx in your program")
        }
        _ => (Kind::Unavailable, ""),
    };
    BackendError::new(kind, applied, format!("failed to {what} in postgres{remedy}")).with_source(error)
}

/// Returns `true` if the server has rolled the transaction back, and the connection can be used again.
pub(super) fn is_rolled_back(error: &sqlx::Error) -> bool {
    of_postgres(error).is_some_and(|error| error.severity() == PgSeverity::Error)
}

pub(super) fn sqlstate(error: &sqlx::Error) -> Option<String> {
    of_postgres(error).map(|error| error.code().to_owned())
}

fn of_postgres(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}
