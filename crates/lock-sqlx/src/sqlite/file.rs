//! The file: its URL, the checks and the tables when it is opened, and whether it is still the same.

use super::{
    clock::{self, FileClock},
    error::{failed, is_busy},
    row::micros,
};
use lock_core::{
    LockError,
    backend::{Applied, BackendError, BackendErrorKind},
    clock::UtcTime,
};
use sqlx::{
    ConnectOptions, Connection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// The time that a statement waits for another process's transaction. It is below the default timeout of a request.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// The time for which a file is tried to be opened that other processes are creating, and the pause between two
/// attempts.
const CREATED_WITHIN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// The oldest version with the operator `->>`.
const OLDEST_SQLITE: (u32, u32) = (3, 38);

/// The version of the tables.
const SCHEMA_VERSION: i64 = 1;

/// Creates the tables, and sets the clock after a start of the machine. Times are microseconds and milliseconds since
/// 1970; a lease and a counter end after theirs. Parameters: version, start, wall clock, time since the start.
const SCHEMA: &str = "
begin immediate;
create table if not exists distlock_meta (
    version integer not null,
    start text, -- tells the start of the machine from others
    started_us integer not null, -- the time of that start
    seen_us integer not null -- the latest time that was read; the next start is not before it
);
insert into distlock_meta (version, started_us, seen_us)
select ?1, 0, 0 where not exists (select 1 from distlock_meta);
update distlock_meta set start = ?2, started_us = max(?3, seen_us) - ?4 where start is not ?2;
create table if not exists distlock_lock (
    name text primary key,
    lease text, -- null if the lock is free
    depth integer not null,
    expires_ms integer not null,
    first integer not null, -- the first token of the last grant
    last integer, -- the last token; null if the counter has expired
    keep_ms integer, -- the end of the counter; null for no end
    freed integer not null -- grows with each release that wakes waiters
) without rowid, strict;
create index if not exists distlock_lock_keep on distlock_lock (keep_ms);
-- Semaphores, read-write locks and fair locks, which earlier versions of this crate did not have.
create table if not exists distlock_pool (
    name text primary key,
    state text not null, -- the holders, the waiters and the counter, as JSON
    freed integer not null, -- grows with each change that wakes waiters
    expires_ms integer -- the end of all that is in it; null for no end
) without rowid, strict;
create index if not exists distlock_pool_expires on distlock_pool (expires_ms);
-- The run ledger: the data of each group of jobs, in parts.
create table if not exists distlock_run (
    grp text not null,
    kind text not null,
    name text not null,
    open integer not null, -- 1 for a job with open runs
    controlled integer not null, -- 1 for a job that is paused, or has another schedule
    expires_ms integer, -- the end of the record of a job that has run once
    data text not null,
    primary key (grp, kind, name)
) without rowid, strict;
create index if not exists distlock_run_open on distlock_run (grp) where open;
create index if not exists distlock_run_controlled on distlock_run (grp) where controlled;
create index if not exists distlock_run_expires on distlock_run (grp, expires_ms) where expires_ms is not null;
create table if not exists distlock_card (
    process text primary key,
    card text not null,
    expires_ms integer not null
) without rowid, strict;
commit";

/// Reads the data of the file, if no table is missing.
const LOOK: &str = "
select sqlite_version(), version, start, started_us from distlock_meta
where exists (select 1 from sqlite_schema where name = 'distlock_pool')";

/// The versions of SQLite and of the tables; the start of the machine, and its time.
type Meta = (String, i64, Option<String>, i64);

/// The file that a URL names.
#[derive(Debug, Clone)]
pub(super) struct Place {
    path: PathBuf,
    synchronous: SqliteSynchronous,
    clock: Arc<FileClock>,
}

/// A connection to the file.
pub(super) struct Open {
    pub(super) connection: SqliteConnection,
    identity: Option<Identity>,
}

impl Open {
    /// Lets the next transactions wait for the disk as the URL says.
    pub(super) async fn relax(&mut self, place: &Place) -> Result<(), sqlx::Error> {
        match place.synchronous {
            SqliteSynchronous::Full => Ok(()),
            _ => sqlx::raw_sql("pragma synchronous = normal").execute(&mut self.connection).await.map(drop),
        }
    }
}

impl Place {
    /// Parses a URL: `sqlite:path`, `sqlite://path` or `sqlite:path?synchronous=full`.
    pub(super) fn parse(url: &str) -> Result<Self, LockError> {
        let rest = match url.split_once(':') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("sqlite") => rest,
            _ => {
                return Err(LockError::invalid_url(
                    "begin it with `sqlite:`, as in `sqlite:/var/lib/shop/locks.db`",
                ));
            }
        };
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() || path == ":memory:" || path.starts_with("file:") {
            return Err(LockError::invalid_url(
                "an sqlite URL names a file by its path, for example `sqlite:/var/lib/shop/locks.db`; for locks in memory, \
                 write `memory:`",
            ));
        }
        let mut synchronous = SqliteSynchronous::Normal;
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            synchronous = match parameter {
                "synchronous=normal" => SqliteSynchronous::Normal,
                "synchronous=full" => SqliteSynchronous::Full,
                // As for sqlx, and always so here.
                "mode=rwc" => synchronous,
                _ => {
                    return Err(LockError::invalid_url(
                        "the parameters of an sqlite URL are `synchronous=normal` or `synchronous=full`: remove the \
                         others (the file is opened for writing, and created if it is missing)",
                    ));
                }
            };
        }
        let path = decoded(path).ok_or_else(|| {
            LockError::invalid_url(
                "the path of an sqlite URL has a `%` that does not begin an escape: write `%25`",
            )
        })?;
        let path = std::path::absolute(path)
            .map_err(|error| LockError::invalid_url(format!("the path cannot be resolved: {error}")))?;
        Ok(Self { path, synchronous, clock: Arc::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the time of the file.
    pub(super) fn now(&self) -> UtcTime {
        self.clock.now()
    }

    /// Opens the file, and creates it and its tables if they are missing.
    pub(super) async fn open(&self) -> Result<Open, BackendError> {
        self.refuse_fork()?;
        self.refuse_network()?;
        let before = Identity::of(&self.path).map(|identity| identity.file);
        if self.path.is_dir() {
            let path = self.path.display();
            return Err(misconfigured(format!(
                "`{path}` is a folder: name a file in it, such as `locks.db`"
            )));
        }
        self.refuse_links()?;
        let what = format!("open `{}`, or create its tables,", self.path.display());
        let begun = Instant::now();
        let (connection, (sqlite, schema, _, started)) = loop {
            match self.connect().await {
                Ok(opened) => break opened,
                Err(error) if is_busy(&error) && begun.elapsed() < CREATED_WITHIN => {}
                Err(error) => return Err(failed(&what, Applied::No, error)),
            }
            sleep(PAUSE).await;
        };
        check_versions(sqlite, schema)?;
        let identity = Identity::of(&self.path);
        let after = identity.as_ref().map(|identity| identity.file);
        if before.is_some_and(|before| Some(before) != after) {
            let message = "the sqlite file was replaced while it was opened";
            return Err(BackendError::new(BackendErrorKind::Unavailable, Applied::No, message));
        }
        self.refuse_links()?;
        self.clock.set(started);
        Ok(Open { connection, identity })
    }

    /// SQLite keeps the locks of its files in memory. A forked child has that memory, but not the locks.
    fn refuse_fork(&self) -> Result<(), BackendError> {
        static OPENED_BY: AtomicU32 = AtomicU32::new(0);
        let this = process::id();
        match OPENED_BY.compare_exchange(0, this, Ordering::SeqCst, Ordering::SeqCst) {
            Err(other) if other != this => Err(misconfigured(
                "this process was forked from one that had locks in an SQLite file: start another program instead",
            )),
            _ => Ok(()),
        }
    }

    /// Each name of a file with several hard links would have a log of its own.
    #[cfg(unix)]
    fn refuse_links(&self) -> Result<(), BackendError> {
        use std::os::unix::fs::MetadataExt;
        match fs::metadata(&self.path) {
            Ok(data) if data.nlink() > 1 => Err(misconfigured(
                "the sqlite file has several hard links, whose locks do not exclude each other: use a symbolic link",
            )),
            _ => Ok(()),
        }
    }

    #[cfg(not(unix))]
    fn refuse_links(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Opens the file, and reads its data. Writes only after a start of the machine, and if tables are missing.
    async fn connect(&self) -> Result<(SqliteConnection, Meta), sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(self.synchronous)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        let mut connection = SqliteConnection::connect_with(&options).await?;
        let start = clock::start();
        let look = sqlx::query_as::<_, Meta>(LOOK);
        if let Ok(Some(meta)) = look.fetch_optional(&mut connection).await
            && (meta.2 == start || meta.1 > SCHEMA_VERSION)
        {
            return Ok((connection, meta));
        }
        let create = sqlx::query(SCHEMA).bind(SCHEMA_VERSION).bind(start);
        let create =
            create.bind(micros(UtcTime::now())).bind(i64::try_from(clock::since_start()).unwrap_or(0));
        create.execute(&mut connection).await?;
        let meta = sqlx::query_as(LOOK).fetch_one(&mut connection).await?;
        Ok((connection, meta))
    }

    /// SQLite's write-ahead log needs memory that all processes share, and locks that the file system enforces.
    #[cfg(target_os = "linux")]
    fn refuse_network(&self) -> Result<(), BackendError> {
        let folder = self.path.parent().unwrap_or(&self.path);
        let place = if self.path.exists() { &self.path } else { folder };
        let Ok(system) = rustix::fs::statfs(place) else { return Ok(()) };
        // From `linux/magic.h`: NFS, SMB, SMB2, CIFS, 9P (also of WSL), AFS, Ceph, OCFS2, GFS2, Lustre.
        const NETWORK: [u32; 10] = [
            0x6969,
            0x517B,
            0xFE53_4D42,
            0xFF53_4D42,
            0x0102_1997,
            0x5346_414F,
            0x00C3_6400,
            0x7461_636F,
            0x0116_1970,
            0x0BD0_0BD0,
        ];
        // The field has 32 significant bits, in a type that depends on the architecture.
        let kind = (system.f_type as u64 & 0xffff_ffff) as u32;
        if NETWORK.contains(&kind) {
            return Err(misconfigured(
                "the sqlite file is on a network file system, where its locks do not exclude: use a local disk, or \
                 another store for several machines",
            ));
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn refuse_network(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Returns `true` if the path still leads to the file that was opened.
    pub(super) fn is_still(&self, open: &Open) -> bool {
        open.identity == Identity::of(&self.path)
    }
}

fn check_versions(sqlite: String, schema: i64) -> Result<(), BackendError> {
    let mut numbers = sqlite.split('.').map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST_SQLITE {
        let (major, minor) = OLDEST_SQLITE;
        return Err(misconfigured(format!(
            "SQLite {sqlite} is too old: locks need {major}.{minor} or later; the feature `sqlite` includes one"
        )));
    }
    if schema > SCHEMA_VERSION {
        return Err(misconfigured(format!(
            "the tables have version {schema}, and this program knows {SCHEMA_VERSION}: update the program"
        )));
    }
    Ok(())
}

fn misconfigured(message: impl Into<String>) -> BackendError {
    BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message)
}

/// Decodes the `%` escapes of a path.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match first {
            b'%' => {
                let (digits, after) = after.split_at_checked(2)?;
                (u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?, after)
            }
            byte => (byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// Tells a file, and the memory that its processes share, from those that take their place. A program that closes the file
/// deletes its log and that memory if it believes to be the last one.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    file: (u64, u64),
    shared: Option<(u64, u64)>,
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
        // It is beside the file to which symbolic links lead.
        let mut shared = fs::canonicalize(path).ok()?.into_os_string();
        shared.push("-shm");
        Some(Self { file: identity(path)?, shared: identity(Path::new(&shared)) })
    }

    /// Elsewhere, an open file cannot be replaced.
    #[cfg(not(unix))]
    fn of(path: &Path) -> Option<Self> {
        fs::exists(path).ok()?.then_some(Self { file: (0, 0), shared: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_file_and_its_durability() {
        for (url, path, synchronous) in [
            ("sqlite:/a/b.db", "/a/b.db", SqliteSynchronous::Normal),
            ("sqlite:///a/b.db?synchronous=full", "/a/b.db", SqliteSynchronous::Full),
            ("sqlite:/a/%23%C3%A9.db?mode=rwc&synchronous=normal", "/a/#é.db", SqliteSynchronous::Normal),
        ] {
            let place = Place::parse(url).unwrap();
            assert_eq!(place.path(), Path::new(path));
            assert_eq!(format!("{:?}", place.synchronous), format!("{synchronous:?}"), "{url}");
        }
        assert!(Place::parse("sqlite:locks.db").unwrap().path().is_absolute());
    }

    #[test]
    fn unusable_urls_have_a_remedy() {
        for (url, remedy) in [
            ("sqlite:", "by its path"),
            ("redis://localhost", "begin it with `sqlite:`"),
            ("sqlite:file:a.db?synchronous=full", "by its path"),
            ("sqlite::memory:", "memory:"),
            ("sqlite:a.db?mode=ro", "remove the others"),
            ("sqlite:100%.db", "%25"),
        ] {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(error.contains(remedy), "{url}: {error}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(check_versions("3.38.0".to_owned(), 1).is_ok());
        assert!(check_versions("3.100.1".to_owned(), 1).is_ok());
        for (sqlite, schema, says) in [("3.9.2", 1, "too old"), ("3.50.0", 2, "update the program")] {
            let error = check_versions(sqlite.to_owned(), schema).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
