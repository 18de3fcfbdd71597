//! The rows of a transaction: those of locks, and those of pools.

use super::row::{Row, Stored};
use crate::pools::PoolRow;
use lock_core::{
    LockName,
    backend::{BackendError, ForceReleaseRequest, ForceReleased, Inspected, Operation, Outcome},
    clock::UtcTime,
};
use serde_json::{Value, json};
use sqlx::SqliteConnection;
use std::collections::{BTreeSet, HashMap};

/// Reads the rows of these locks, a JSON array.
const READ: &str = "
select name, lease, depth, expires_ms, first, last, keep_ms, freed from distlock_lock
where name in (select value from json_each(?1))";

const READ_POOLS: &str = "
select name, state, freed from distlock_pool where name in (select value from json_each(?1))";

/// Begins a transaction as the file's writer, and reads the rows of locks.
const BEGIN: &str = "
begin immediate;
select name, lease, depth, expires_ms, first, last, keep_ms, freed from distlock_lock
where name in (select value from json_each(?1))";

/// Writes rows, a JSON array of arrays.
const WRITE_POOLS: &str = "
insert into distlock_pool (name, state, freed, expires_ms)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3 from json_each(?1) where true
on conflict (name) do update set
    state = excluded.state, freed = excluded.freed, expires_ms = excluded.expires_ms";

/// Writes the rows of locks, and commits.
const WRITE: &str = "
insert into distlock_lock (name, lease, depth, expires_ms, first, last, keep_ms, freed)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7
from json_each(?1) where true
on conflict (name) do update set
    lease = excluded.lease, depth = excluded.depth, expires_ms = excluded.expires_ms, first = excluded.first,
    last = excluded.last, keep_ms = excluded.keep_ms, freed = excluded.freed;
commit";

/// The record of a name.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Record {
    Lock(Row),
    Pool(PoolRow),
}

impl Record {
    fn new(name: &LockName) -> Self {
        match name.is_pool() {
            true => Self::Pool(PoolRow::default()),
            false => Self::Lock(Row::default()),
        }
    }

    /// Applies an operation.
    pub(super) fn apply(&mut self, now: UtcTime, operation: &Operation) -> Outcome {
        match self {
            Self::Lock(row) => row.apply(now, operation),
            Self::Pool(row) => row.apply(now, operation),
        }
    }

    pub(super) fn force_release(&mut self, now: UtcTime, r: &ForceReleaseRequest) -> ForceReleased {
        match self {
            Self::Lock(row) => row.force_release(now, r),
            Self::Pool(row) => row.force_release(now, r),
        }
    }

    pub(super) fn inspect(self, now: UtcTime) -> Inspected {
        match self {
            Self::Lock(row) => row.inspect(now),
            Self::Pool(row) => row.inspect(now),
        }
    }

    fn freed(&self) -> i64 {
        match self {
            Self::Lock(row) => row.freed(),
            Self::Pool(row) => row.freed(),
        }
    }
}

/// The records of a transaction, as they were and as they will be.
pub(super) struct Rows(HashMap<LockName, Result<(Record, Record), BackendError>>);

/// The columns of the rows that have changed, and the names whose release wakes waiters.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) locks: Vec<Value>,
    pub(super) pools: Vec<Value>,
    pub(super) freed: Vec<(LockName, i64)>,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.pools.is_empty()
    }
}

impl Rows {
    /// Begins a transaction, and reads the rows of these names. If it fails, the transaction may have begun.
    pub(super) async fn begin(
        connection: &mut SqliteConnection,
        names: BTreeSet<LockName>,
    ) -> Result<Self, sqlx::Error> {
        Self::read_with(connection, BEGIN, names).await
    }

    /// Reads the rows of these names.
    pub(super) async fn read(
        connection: &mut SqliteConnection,
        names: BTreeSet<LockName>,
    ) -> Result<Self, sqlx::Error> {
        Self::read_with(connection, READ, names).await
    }

    /// A name without a row is free.
    async fn read_with(
        connection: &mut SqliteConnection,
        text: &'static str,
        names: BTreeSet<LockName>,
    ) -> Result<Self, sqlx::Error> {
        let (pools, locks): (Vec<_>, Vec<_>) = names.into_iter().partition(LockName::is_pool);
        let mut records = HashMap::new();
        let mut insert = |name, record: Result<Record, BackendError>| {
            records.insert(name, record.map(|record| (record.clone(), record)));
        };
        let stored: Vec<Stored> =
            sqlx::query_as(text).bind(as_json(&locks)).fetch_all(&mut *connection).await?;
        let stored: HashMap<_, _> = stored.iter().map(|stored| (stored.name.as_str(), stored)).collect();
        for name in locks {
            let row = stored.get(name.as_str()).map_or(Ok(Row::default()), |stored| stored.row());
            insert(name, row.map(Record::Lock));
        }
        if !pools.is_empty() {
            let read = sqlx::query_as(READ_POOLS).bind(as_json(&pools)).fetch_all(connection).await;
            let stored: Vec<(String, String, i64)> = read?;
            let stored: HashMap<_, _> =
                stored.iter().map(|(name, state, freed)| (name.as_str(), (state, *freed))).collect();
            for name in pools {
                let read = |(state, freed): &(&String, i64)| PoolRow::read(name.as_str(), state, *freed);
                let row = stored.get(name.as_str()).map_or(Ok(PoolRow::default()), read);
                insert(name, row.map(Record::Pool));
            }
        }
        Ok(Self(records))
    }

    pub(super) fn of(&mut self, name: &LockName) -> Result<&mut Record, BackendError> {
        let new = || Ok((Record::new(name), Record::new(name)));
        match self.0.entry(name.clone()).or_insert_with(new) {
            Ok((_, record)) => Ok(record),
            Err(error) => Err(error.clone()),
        }
    }

    pub(super) fn changed(&self, now: UtcTime) -> Changed {
        let mut changed = Changed::default();
        for (name, record) in &self.0 {
            let Ok((before, after)) = record else { continue };
            if before != after {
                match after {
                    Record::Lock(row) => changed.locks.push(row.columns(name.as_str())),
                    Record::Pool(row) => {
                        let columns = json!([name.as_str(), row.state(), row.freed(), row.expires_ms(now)]);
                        changed.pools.push(columns);
                    }
                }
            }
            if before.freed() != after.freed() {
                changed.freed.push((name.clone(), after.freed()));
            }
        }
        changed
    }
}

/// Writes rows, and commits.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    locks: Vec<Value>,
    pools: Vec<Value>,
) -> Result<(), sqlx::Error> {
    if !pools.is_empty() {
        let write = sqlx::query(WRITE_POOLS).bind(Value::from(pools).to_string());
        write.execute(&mut *connection).await?;
    }
    sqlx::query(WRITE).bind(Value::from(locks).to_string()).execute(connection).await.map(drop)
}

/// Returns the names as a JSON array.
pub(super) fn as_json<'n>(names: impl IntoIterator<Item = &'n LockName>) -> String {
    json!(names.into_iter().map(LockName::as_str).collect::<Vec<_>>()).to_string()
}
