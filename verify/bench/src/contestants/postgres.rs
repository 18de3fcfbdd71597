//! Locks in PostgreSQL, and the least that such a lock costs: one statement each, on the same client.

use super::{Lock, Locks};
use crate::Result;
use lock_core::LockFactory;
use lock_sqlx::PostgresBackend;
use sqlx::{PgPool, postgres::PgPoolOptions};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use uuid::Uuid;

/// The pause between two attempts of the floor.
const PAUSE: Duration = Duration::from_millis(2);

const CREATE: &str = "
create table if not exists floor (name text primary key, owner text, expires timestamptz, token bigint)
with (fillfactor = 50);
create table if not exists floor_fence (name text primary key, token bigint) with (fillfactor = 50)";

const ACQUIRE: &str = "
with granted as (
    insert into floor as f (name, owner, expires, token) values ($1, $2, clock_timestamp() + interval '30 s', 1)
    on conflict (name) do update set owner = excluded.owner, expires = excluded.expires, token = f.token + 1
    where f.owner is null or f.expires < clock_timestamp()
    returning token
),
fenced as (
    insert into floor_fence (name, token) select $1, token from granted
    on conflict (name) do update set token = excluded.token
)
select token from granted";

const RELEASE: &str = "
with settings as materialized (select set_config('synchronous_commit', 'off', true))
update floor set owner = null from settings where name = $1 and owner = $2";

/// Locks of this workspace.
pub(crate) struct Postgres(LockFactory);

impl Locks for Postgres {
    type Lock = lock_core::Lock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(PostgresBackend::connect(&format!("{url}?migrate=true")).await?)))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.named(name)?)
    }
}

/// The floor, with as many connections as a client of this workspace has for acquires and releases.
pub(crate) struct PostgresFloor(PgPool);

#[derive(Clone)]
pub(crate) struct FloorLock {
    pool: PgPool,
    name: Arc<str>,
}

impl Locks for PostgresFloor {
    type Lock = FloorLock;

    async fn connect(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(6).test_before_acquire(false).connect(url).await?;
        let mut connection = pool.acquire().await?;
        // Processes that create the table at the same time would fail.
        sqlx::query("select pg_advisory_lock(1)").execute(&mut *connection).await?;
        sqlx::raw_sql(CREATE).execute(&mut *connection).await?;
        sqlx::query("select pg_advisory_unlock(1)").execute(&mut *connection).await?;
        drop(connection);
        Ok(Self(pool))
    }

    fn lock(&self, name: &str) -> Result<FloorLock> {
        Ok(FloorLock { pool: self.0.clone(), name: name.into() })
    }
}

impl Lock for FloorLock {
    type Held = (String, i64);

    async fn acquire(&self) -> Result<(String, i64)> {
        let owner = Uuid::new_v4().to_string();
        loop {
            let token = sqlx::query_scalar(ACQUIRE).bind(&*self.name).bind(&owner);
            match token.fetch_optional(&self.pool).await? {
                Some(token) => return Ok((owner, token)),
                None => sleep(PAUSE).await,
            }
        }
    }

    async fn release(&self, (owner, _): (String, i64)) -> Result<()> {
        let release = sqlx::query(RELEASE).bind(&*self.name).bind(owner);
        match release.execute(&self.pool).await?.rows_affected() {
            1 => Ok(()),
            _ => Err(format!("{} was lost before its release", self.name).into()),
        }
    }

    fn token((_, token): &(String, i64)) -> Option<u64> {
        u64::try_from(*token).ok()
    }
}
