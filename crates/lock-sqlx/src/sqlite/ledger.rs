//! The run ledger: transactions on the parts of a group.

use super::{error::failed, file::Place};
use futures_util::TryStreamExt as _;
use lock_core::backend::{Applied, BackendError};
use lock_ledger::{
    GroupName, MAX_INSTANCES_READ,
    stored::{Access, Change, Needs, Next, Step},
};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

/// Reads parts: group, kinds and names, whole kinds, whether jobs with open runs, whether jobs with controls, the instance
/// that a page follows, its length, a job whose claims and names of arguments are read, and a time before which records
/// have ended. Lists are JSON arrays.
const PARTS: &str = "
select kind, name, data from distlock_run where grp = ?1 and kind = 'head'
union all
select kind, name, data from distlock_run
where grp = ?1 and kind in (select value from json_each(?2)) and name in (select value from json_each(?3))
union all
select kind, name, iif(kind = 'argument', '', data) from distlock_run
where grp = ?1 and kind in (select value from json_each(?4))
union all
select kind, name, data from distlock_run where ?5 and grp = ?1 and open
union all
select kind, name, data from distlock_run where ?6 and grp = ?1 and controlled
union all
select kind, name, data from (select kind, name, data from distlock_run
where ?7 is not null and grp = ?1 and kind = 'instance' and name > ?7 order by name limit ?8)
union all
select kind, name, iif(kind = 'argument', '', data) from distlock_run
where ?9 is not null and grp = ?1 and kind in ('argument', 'claim')
    and name > ?9 || char(10) and name < ?9 || char(11)
union all
select kind, name, data from (select kind, name, data from distlock_run where grp = ?1 and expires_ms < ?10 limit 100)";

/// Writes parts: group, and a JSON array of kind, name, whether open, whether controlled, the end of the record,
/// data. Those without data are deleted.
const WRITE_PARTS: &str = "
delete from distlock_run where grp = ?1 and (kind, name) in (
    select value ->> 0, value ->> 1 from json_each(?2) where value ->> 5 is null);
insert into distlock_run (grp, kind, name, open, controlled, expires_ms, data)
select ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
from json_each(?2) where value ->> 5 is not null
on conflict (grp, kind, name) do update set
    open = excluded.open, controlled = excluded.controlled, expires_ms = excluded.expires_ms, data = excluded.data";

/// Executes a transaction, and leaves it open if it fails.
pub(super) async fn transact(
    connection: &mut SqliteConnection,
    place: &Place,
    group: &GroupName,
    access: Access,
    mut step: Step,
) -> Result<(), BackendError> {
    let unsent = |error| failed("read or write a record of jobs", Applied::No, error);
    let begin = match access {
        Access::Read => "begin",
        Access::Quick => "begin immediate",
        // Grants of locks are on the disk then as well.
        Access::Durable | Access::Renewal => "pragma synchronous = full; begin immediate",
    };
    sqlx::raw_sql(begin).execute(&mut *connection).await.map_err(unsent)?;
    // Read while the transaction has the write lock.
    let now = place.now();
    let mut read = Vec::new();
    let changes = loop {
        match step(now, read)? {
            Next::Read(needs) => read = parts(connection, group, needs).await.map_err(unsent)?,
            Next::Commit(changes) => break changes,
        }
    };
    if !changes.is_empty() {
        let rows: Vec<_> = changes.into_iter().map(columns).collect();
        let write =
            sqlx::query(WRITE_PARTS).bind(group.as_str().to_owned()).bind(Value::from(rows).to_string());
        write.execute(&mut *connection).await.map_err(unsent)?;
    }
    let commit = sqlx::raw_sql("commit").execute(connection).await;
    commit.map(drop).map_err(|error| failed("commit a record of jobs", Applied::Unknown, error))
}

async fn parts(
    connection: &mut SqliteConnection,
    group: &GroupName,
    needs: Needs,
) -> Result<Vec<(String, String, String)>, sqlx::Error> {
    let query = sqlx::query_as(PARTS)
        .bind(group.as_str())
        .bind(json!(needs.kinds).to_string())
        .bind(json!(needs.names).to_string())
        .bind(json!(needs.all_of).to_string())
        .bind(needs.open)
        .bind(needs.controlled)
        .bind(needs.page)
        .bind(i64::try_from(MAX_INSTANCES_READ).unwrap_or(i64::MAX))
        .bind(needs.of_job)
        .bind(needs.expired.map(|time| i64::try_from(time).unwrap_or(i64::MAX)));
    let mut parts: Vec<(String, String, String)> = query.fetch(connection).try_collect().await?;
    // No other transaction has anything while this one has the write lock.
    let claims: Vec<_> =
        parts.iter().filter(|(kind, ..)| kind == "claim").map(|(_, name, _)| name.clone()).collect();
    parts.extend(claims.into_iter().map(|name| ("locked".to_owned(), name, "x".to_owned())));
    Ok(parts)
}

fn columns(change: Change) -> Value {
    let Change { kind, name, data, open, controlled, expires_ms } = change;
    json!([kind, name, open, controlled, expires_ms, data])
}
