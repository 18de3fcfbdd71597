//! Records in an SQLite or PostgreSQL table, with the same statements for both.

mod row;
mod store;

#[cfg(feature = "sqlx-any")]
pub use store::AnyIdempotencyStore;
#[cfg(feature = "postgres")]
pub use store::PostgresIdempotencyStore;
#[cfg(feature = "sqlite")]
pub use store::SqliteIdempotencyStore;

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
