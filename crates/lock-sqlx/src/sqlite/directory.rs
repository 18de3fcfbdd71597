//! Process cards and the list of held locks.

use super::{error::failed, row::millis};
use crate::pools::listed_name;
use futures_util::TryStreamExt;
use lock_core::{
    backend::{Applied, BackendError, ProcessId},
    clock::UtcTime,
    inspect::{ListLimits, Listing},
};
use sqlx::SqliteConnection;
use std::time::{Duration, Instant};

/// Deletes the expired cards, and writes one. Each statement is a transaction of its own, so an error leaves none open.
const WRITE_CARD: &str = "
delete from distlock_card where expires_ms < ?4;
insert or replace into distlock_card (process, card, expires_ms) values (?1, ?2, ?3)";

const REMOVE_CARD: &str = "delete from distlock_card where process = ?1";

const READ_CARD: &str = "select card from distlock_card where process = ?1 and expires_ms >= ?2";

/// Finds the held locks, and the pools with holders or waiters, whose names begin with ?1, which is not a pattern.
const LIST: &str = "
select name from distlock_lock
where name >= ?1 and substr(name, 1, length(?1)) = ?1 and lease is not null and expires_ms >= ?2
union all
select name from distlock_pool
where ?1 <> '' and name >= ?1 and substr(name, 1, length(?1)) = ?1
    and exists (select 1 from json_tree(state) where key = 'ends_ms' and value >= ?2)
order by name";

pub(super) async fn write_card(
    connection: &mut SqliteConnection,
    now: UtcTime,
    process: ProcessId,
    card: String,
    ttl: Duration,
) -> Result<(), BackendError> {
    let write = sqlx::query(WRITE_CARD)
        .bind(process.to_string())
        .bind(card)
        .bind(millis(now + ttl))
        .bind(millis(now))
        .execute(connection)
        .await;
    write.map(drop).map_err(|error| failed("write a process card", Applied::Unknown, error))
}

pub(super) async fn remove_card(
    connection: &mut SqliteConnection,
    process: ProcessId,
) -> Result<(), BackendError> {
    let remove = sqlx::query(REMOVE_CARD).bind(process.to_string()).execute(connection).await;
    remove.map(drop).map_err(|error| failed("remove a process card", Applied::Unknown, error))
}

pub(super) async fn read_card(
    connection: &mut SqliteConnection,
    now: UtcTime,
    process: ProcessId,
) -> Result<Option<String>, BackendError> {
    let read = sqlx::query_scalar(READ_CARD).bind(process.to_string()).bind(millis(now));
    read.fetch_optional(connection).await.map_err(|error| failed("read a process card", Applied::No, error))
}

pub(super) async fn list(
    connection: &mut SqliteConnection,
    now: UtcTime,
    prefix: String,
    limits: ListLimits,
) -> Result<Listing, BackendError> {
    let begun = Instant::now();
    let mut rows = sqlx::query_scalar::<_, String>(LIST).bind(prefix).bind(millis(now)).fetch(connection);
    let (mut names, mut is_truncated) = (Vec::new(), false);
    while let Some(name) = rows.try_next().await.map_err(|error| failed("list locks", Applied::No, error))? {
        let Some(name) = listed_name(&name) else { continue };
        is_truncated = names.len() == limits.names() || begun.elapsed() > limits.time();
        if is_truncated {
            break;
        }
        names.push(name);
    }
    Ok(Listing::new(names, is_truncated))
}
