//! Files that cannot be used, and files that change while locks are held.

use crate::sqlite::support::LockFile;
use lock_core::{LockErrorKind, LockFactory, LockOptions, LostReason, Retention};
use lock_sqlx::SqliteBackend;
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use std::{env, error::Error as _, fs, io::Write as _, path::PathBuf, process::Command, time::Duration};

async fn raw(file: &LockFile) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file.path()).connect().await.unwrap()
}

async fn refusal(url: &str) -> (LockErrorKind, String) {
    let error = SqliteBackend::connect(url).await.unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    (error.kind(), format!("{error} {source}"))
}

#[tokio::test]
async fn file_in_a_missing_folder_is_refused() {
    let file = LockFile::new();
    let url = format!("sqlite:{}/missing/locks.db", file.path().parent().unwrap().display());
    let (kind, text) = refusal(&url).await;
    assert_eq!(kind, LockErrorKind::Backend);
    assert!(text.contains("check that its folder exists"), "{text}");
}

#[tokio::test]
async fn folder_is_refused() {
    let file = LockFile::new();
    let (kind, text) = refusal(&format!("sqlite:{}", file.path().parent().unwrap().display())).await;
    assert_eq!(kind, LockErrorKind::Backend);
    assert!(text.contains("is a folder: name a file in it"), "{text}");
}

/// The tables are there, so a connect writes nothing.
#[tokio::test]
async fn transaction_of_the_application_does_not_delay_a_connect() {
    let file = LockFile::new();
    drop(file.client().await);
    let mut application = raw(&file).await;
    let transaction = application.begin_with("begin immediate").await.unwrap();
    file.client().await;
    transaction.rollback().await.unwrap();
}

#[tokio::test]
async fn file_that_is_no_database_is_refused() {
    let file = LockFile::new();
    fs::write(file.path(), "no database, but long enough for the header of one".repeat(100)).unwrap();
    let (kind, text) = refusal(&file.url()).await;
    assert_eq!(kind, LockErrorKind::Backend);
    assert!(text.contains("no SQLite database"), "{text}");
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let file = LockFile::new();
    drop(file.client().await);
    sqlx::query("update distlock_meta set version = 2").execute(&mut raw(&file).await).await.unwrap();
    let (kind, text) = refusal(&file.url()).await;
    assert_eq!(kind, LockErrorKind::Backend);
    assert!(text.contains("update the program"), "{text}");
}

#[tokio::test]
async fn row_of_another_program_is_refused_and_no_other() {
    let file = LockFile::new();
    let locks = file.locks().await;
    sqlx::query("insert into distlock_lock values ('x', 'somebody', 1, 9999999999999, 1, 1, null, 0)")
        .execute(&mut raw(&file).await)
        .await
        .unwrap();
    let error = locks.named("x").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    let guard = locks.named("y").unwrap().acquire().await.unwrap();
    assert!(guard.release().await.unwrap().was_held());
}

/// Another program writes for longer than a request waits: acquires wait it out, holds survive it.
#[tokio::test]
async fn long_transaction_of_the_application_delays_and_loses_nothing() {
    let file = LockFile::new();
    let locks = file.locks().await;
    let held = locks.named("held").unwrap().acquire().await.unwrap();
    let mut application = raw(&file).await;
    let transaction = application.begin_with("begin immediate").await.unwrap();
    let lock = locks.named("x").unwrap();
    let error = lock.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("keep write transactions"), "{source}");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    transaction.rollback().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().release().await.unwrap().was_held());
    assert!(held.is_held());
}

#[tokio::test]
async fn lazy_store_connects_once_the_folder_exists() {
    let file = LockFile::new();
    let folder = file.path().parent().unwrap().join("later");
    let locks = LockFactory::new(
        SqliteBackend::connect_lazy(&format!("sqlite:{}/locks.db", folder.display())).unwrap(),
    );
    let lock = locks.named("x").unwrap();
    assert_eq!(lock.try_acquire().await.unwrap_err().kind(), LockErrorKind::Backend);
    fs::create_dir(folder).unwrap();
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn replaced_file_ends_the_holds_of_the_old_one() {
    let file = LockFile::new();
    let locks = file.locks().await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{ending}", file.path().display()));
    }
    let others = file.locks().await;
    let other = others.named("x").unwrap().acquire().await.unwrap();
    assert!(other.fencing_token() > guard.fencing_token());
    // Any request notices it.
    drop(locks.named("y").unwrap().acquire().await.unwrap());
    let lost = tokio::time::timeout(Duration::from_secs(20), guard.lost()).await;
    assert_eq!(lost.expect("it notices"), LostReason::Gone);
    assert!(other.is_held());
}

/// After a start of the machine, the clock is not behind the times that were seen before, whatever the wall clock says.
#[tokio::test]
async fn clock_continues_after_a_start_of_the_machine() {
    let file = LockFile::new();
    let first = file.locks().await.named("x").unwrap().acquire().await.unwrap().fencing_token();
    let ahead = first.as_i64() + 3_600_000_000;
    sqlx::query("update distlock_meta set start = 'another', seen_us = ?1")
        .bind(ahead)
        .execute(&mut raw(&file).await)
        .await
        .unwrap();
    // The lease of the machine's earlier life has ended by then.
    let guard = file.locks().await.named("y").unwrap().acquire().await.unwrap();
    assert!(guard.fencing_token().as_i64() > ahead);
    let again = file.locks().await.named("y").unwrap().try_acquire().await.unwrap();
    assert!(again.is_none(), "all processes of this start agree");
}

/// The request has begun in the old file, behind a transaction of the application.
#[tokio::test]
async fn file_replaced_in_a_transaction_keeps_its_leases() {
    let file = LockFile::new();
    let locks = file.locks().await;
    let mut application = raw(&file).await;
    let transaction = application.begin_with("begin immediate").await.unwrap();
    let waiting = tokio::spawn(locks.named("x").unwrap().acquire_timeout(Duration::from_secs(3)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    for ending in ["", "-wal", "-shm"] {
        let from = format!("{}{ending}", file.path().display());
        let _ = fs::rename(&from, from.replace("locks.db", "old.db"));
    }
    let others = file.locks().await;
    let other = others.named("x").unwrap().acquire().await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(waiting.await.unwrap().is_err(), "the other one holds");
    assert!(file.locks().await.named("x").unwrap().try_acquire().await.unwrap().is_none());
    assert!(other.is_held());
}

#[tokio::test]
async fn hard_links_are_refused_and_symbolic_links_are_one_file() {
    let file = LockFile::new();
    let locks = file.locks().await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let link = file.path().with_file_name("link.db");
    std::os::unix::fs::symlink(file.path(), &link).unwrap();
    let others =
        LockFactory::new(SqliteBackend::connect(&format!("sqlite:{}", link.display())).await.unwrap());
    assert!(others.named("x").unwrap().try_acquire().await.unwrap().is_none());
    drop(guard);
    fs::remove_file(&link).unwrap();
    fs::hard_link(file.path(), &link).unwrap();
    let (kind, text) = refusal(&format!("sqlite:{}", link.display())).await;
    assert_eq!(kind, LockErrorKind::Backend);
    assert!(text.contains("use a symbolic link"), "{text}");
}

/// The counter of a long hold expires before its release.
#[tokio::test]
async fn row_of_a_long_hold_is_deleted() {
    let file = LockFile::new();
    let locks = file.locks().await;
    let options = LockOptions::default().lease(Duration::from_secs(3));
    let options = options.retention(Retention::For(Duration::from_secs(1)));
    let guard = locks.named("long").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    file.counter_has_expired("long").await;
    guard.release().await.unwrap();
    let lock = locks.named("another").unwrap();
    for _ in 0..100 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let rows: i64 = sqlx::query_scalar("select count(*) from distlock_lock where name = 'long'")
        .fetch_one(&mut raw(&file).await)
        .await
        .unwrap();
    assert_eq!(rows, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_keeps_up_with_batches() {
    let file = LockFile::new();
    let locks = file.locks().await;
    let options = LockOptions::default().retention(Retention::For(Duration::from_secs(1)));
    let round = async |number: u32| {
        let cycles = (0..64).map(|task| {
            let lock = locks.named(format!("order:{number}:{task}")).unwrap().with_options(options).unwrap();
            tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
        });
        futures_util::future::join_all(cycles).await;
    };
    for number in 0..200 {
        round(number).await;
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for number in 200..400 {
        round(number).await;
    }
    let rows: i64 = sqlx::query_scalar("select count(*) from distlock_lock where name < 'order:200'")
        .fetch_one(&mut raw(&file).await)
        .await
        .unwrap();
    assert!(rows < 1_000, "{rows} of 12,800 expired rows are left after as many others were written");
}

#[tokio::test]
async fn expired_rows_are_deleted() {
    let file = LockFile::new();
    let locks = file.locks().await;
    let keep = LockOptions::default().retention(Retention::For(Duration::from_secs(1)));
    let cycle = |name: String| {
        let lock = locks.named(name).unwrap().with_options(keep).unwrap();
        async move { lock.acquire().await.unwrap().release().await.unwrap() }
    };
    for number in 0..300 {
        cycle(format!("order:{number}")).await;
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for _ in 0..200 {
        cycle("another".to_owned()).await;
    }
    let rows: i64 = sqlx::query_scalar("select count(*) from distlock_lock")
        .fetch_one(&mut raw(&file).await)
        .await
        .unwrap();
    assert!(rows < 50, "{rows} of 300 rows are still there");
}

/// The disk of the file is full: nothing is granted, with the reason. A hold continues, and everything goes on when there is
/// room again. The disk is a small one in memory, in a namespace of this test.
#[tokio::test]
async fn full_disk_grants_nothing_and_loses_no_hold() {
    const DISK: &str = "LOCK_SQLX_TEST_DISK";
    let Some(disk) = env::var_os(DISK).map(PathBuf::from) else {
        let (folder, test) =
            (tempfile::tempdir().unwrap(), "sqlite::files::full_disk_grants_nothing_and_loses_no_hold");
        let mount = "mount -t tmpfs -o size=2m tmpfs \"$0\" && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", mount]).arg(folder.path());
        command.arg(env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
        let status = command.env(DISK, folder.path()).status().expect("util-linux is installed");
        assert!(status.success(), "it needs `unshare` with user namespaces: {status}");
        return;
    };
    let locks = LockFactory::new(
        SqliteBackend::connect(&format!("sqlite:{}/locks.db", disk.display())).await.unwrap(),
    );
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    let (filler, mut size) = (disk.join("filler"), 1 << 16);
    let mut file = fs::File::create(&filler).unwrap();
    while size > 0 {
        if file.write_all(&vec![0; size]).is_err() {
            size /= 2;
        }
    }
    // A little of the log can be used again.
    let refused = 'refused: {
        for number in 0..2_000 {
            if let Err(error) = locks.named(format!("y:{number}")).unwrap().try_acquire().await {
                break 'refused error;
            }
        }
        panic!("the disk does not become full");
    };
    let reason = refused.source().map(ToString::to_string).unwrap_or_default();
    assert!(
        refused.kind() == LockErrorKind::Unavailable && reason.contains("the disk is full"),
        "{refused}: {reason}"
    );
    assert!(guard.is_held());
    drop(file);
    fs::remove_file(filler).unwrap();
    let other = locks.named("z").unwrap().acquire_timeout(Duration::from_secs(30)).await.unwrap();
    other.release().await.unwrap();
    assert!(guard.release().await.unwrap().was_held());
}
