//! Errors of SQLite as errors of a store, each with its remedy.

use lock_core::backend::{Applied, BackendError, BackendErrorKind as Kind};
use sqlx::error::DatabaseError;

/// The error of a statement. `applied` says whether it may have taken effect.
pub(super) fn failed(what: &str, applied: Applied, error: sqlx::Error) -> BackendError {
    let (kind, remedy) = match error.as_database_error().and_then(primary_code) {
        Some(BUSY | LOCKED) => (
            Kind::Unavailable,
            ": another process keeps its write lock; keep write transactions in this file shorter than a third of the lease",
        ),
        Some(FULL) => (Kind::Unavailable, ": the disk is full"),
        Some(PERM | READONLY | AUTH) => {
            (Kind::Denied, ": make the file and its folder writable for this user")
        }
        Some(CANTOPEN) => {
            (Kind::Misconfigured, ": check that its folder exists and that this user may open it")
        }
        Some(CORRUPT | NOTADB) => {
            (Kind::WrongType, ": the file is damaged, or no SQLite database; name another file")
        }
        Some(ERROR) => (Kind::Misconfigured, ": the tables are not those that this version created"),
        _ => (Kind::Unavailable, ""),
    };
    BackendError::new(kind, applied, format!("failed to {what} in sqlite{remedy}")).with_source(error)
}

/// Returns `true` if the file was locked, so that the same statement may succeed now.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(error.as_database_error().and_then(primary_code), Some(BUSY | LOCKED))
}

/// Returns the primary result code. <https://www.sqlite.org/rescode.html>
fn primary_code(error: &dyn DatabaseError) -> Option<i32> {
    error.code()?.parse::<i32>().ok().map(|code| code & 0xff)
}

const ERROR: i32 = 1;
const PERM: i32 = 3;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READONLY: i32 = 8;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const AUTH: i32 = 23;
const NOTADB: i32 = 26;
