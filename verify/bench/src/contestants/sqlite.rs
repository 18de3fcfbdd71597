//! Locks in an SQLite file, and the least that such a lock costs: one statement each, on the same client.

use super::{Lock, Locks};
use crate::Result;
use lock_core::LockFactory;
use lock_sqlx::SqliteBackend;
use sqlx::{
    ConnectOptions as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{sync::Mutex, time::sleep};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);
/// The pause between two attempts of the floor, the same as the interval at which lock-sqlx looks at the file.
const PAUSE: Duration = Duration::from_millis(2);

const CREATE: &str = "
create table if not exists floor (name text primary key, owner text, expires_ms integer, token integer) without rowid";

const ACQUIRE: &str = "
insert into floor (name, owner, expires_ms, token) values (?1, ?2, ?3 + ?4, 1)
on conflict (name) do update set owner = excluded.owner, expires_ms = excluded.expires_ms, token = token + 1
where owner is null or expires_ms < ?3
returning token";

const RELEASE: &str = "update floor set owner = null where name = ?1 and owner = ?2";

/// Locks of this workspace.
pub(crate) struct Sqlite(LockFactory);

impl Locks for Sqlite {
    type Lock = lock_core::Lock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(SqliteBackend::connect(url).await?)))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.named(name)?)
    }
}

/// The floor.
pub(crate) struct SqliteFloor(Arc<Mutex<SqliteConnection>>);

#[derive(Clone)]
pub(crate) struct FloorLock {
    connection: Arc<Mutex<SqliteConnection>>,
    name: Arc<str>,
}

impl Locks for SqliteFloor {
    type Lock = FloorLock;

    async fn connect(url: &str) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(url.trim_start_matches("sqlite:"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .disable_statement_logging();
        let connect = async || {
            let mut connection = options.connect().await?;
            sqlx::query(CREATE).execute(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        };
        // Processes that create the file at the same time find it locked.
        let mut connection = connect().await;
        for _ in 0..20 {
            if connection.is_ok() {
                break;
            }
            sleep(PAUSE * 10).await;
            connection = connect().await;
        }
        Ok(Self(Arc::new(Mutex::new(connection?))))
    }

    fn lock(&self, name: &str) -> Result<FloorLock> {
        Ok(FloorLock { connection: self.0.clone(), name: name.into() })
    }
}

impl Lock for FloorLock {
    type Held = (String, i64);

    async fn acquire(&self) -> Result<(String, i64)> {
        let owner = Uuid::new_v4().to_string();
        loop {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
            let token: Option<i64> = sqlx::query_scalar(ACQUIRE)
                .bind(&*self.name)
                .bind(&owner)
                .bind(i64::try_from(now)?)
                .bind(i64::try_from(LEASE.as_millis())?)
                .fetch_optional(&mut *self.connection.lock().await)
                .await?;
            match token {
                Some(token) => return Ok((owner, token)),
                None => sleep(PAUSE).await,
            }
        }
    }

    async fn release(&self, (owner, _): (String, i64)) -> Result<()> {
        let release = sqlx::query(RELEASE).bind(&*self.name).bind(owner);
        match release.execute(&mut *self.connection.lock().await).await?.rows_affected() {
            1 => Ok(()),
            _ => Err(format!("{} was lost before its release", self.name).into()),
        }
    }

    fn token((_, token): &(String, i64)) -> Option<u64> {
        u64::try_from(*token).ok()
    }
}
