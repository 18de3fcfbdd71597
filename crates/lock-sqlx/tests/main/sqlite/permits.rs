//! Permits in files of an earlier version, and the end of their rows.

use crate::sqlite::support::LockFile;
use lock_core::{__private::semaphore_name, LockName, Store, inspect::ListLimits};
use lock_testkit::contender::Contender;
use sqlx::{ConnectOptions as _, SqliteConnection, sqlite::SqliteConnectOptions};

async fn raw(file: &LockFile) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file.path()).connect().await.unwrap()
}

async fn pools(file: &LockFile) -> Vec<String> {
    sqlx::query_scalar("select name from distlock_pool").fetch_all(&mut raw(file).await).await.unwrap()
}

/// A program of the former version still has the file open.
#[tokio::test]
async fn file_of_the_former_version_is_migrated_while_it_is_used() {
    let file = LockFile::new();
    let former = file.locks().await;
    sqlx::raw_sql("drop table distlock_pool").execute(&mut raw(&file).await).await.unwrap();
    let guard = former.named("x").unwrap().acquire().await.unwrap();
    let locks = file.locks().await;
    assert!(locks.named("x").unwrap().try_acquire().await.unwrap().is_none());
    let permit = locks.semaphore("x", 1).unwrap().acquire().await.unwrap();
    assert!(permit.release().await.unwrap().was_held());
    assert!(guard.release().await.unwrap().was_held());
}

#[tokio::test]
async fn pools_are_listed_only_by_the_beginning_of_their_names() {
    let file = LockFile::new();
    let (locks, store) = (file.locks().await, file.store().await);
    let _guard = locks.named("d").unwrap().acquire().await.unwrap();
    let permit = locks.semaphore("x", 1).unwrap().acquire().await.unwrap();
    let name = semaphore_name(&LockName::new("x").unwrap()).unwrap();
    let directory = store.directory.unwrap();
    for (prefix, number) in [("", 1), ("d", 2), ("distlock:semaphore/", 1), ("distlock:rwlock/", 0)] {
        let listing = directory.list(prefix.to_owned(), ListLimits::new()).await.unwrap();
        assert_eq!(listing.names.len(), number, "{prefix}: {listing:?}");
        assert_eq!(listing.names.contains(&name), prefix.starts_with('d') && number > 0);
    }
    assert!(permit.release().await.unwrap().was_held());
    let listing = directory.list("distlock:".to_owned(), ListLimits::new()).await.unwrap();
    assert!(listing.names.is_empty(), "only its counter is left");
}

#[tokio::test]
async fn pools_that_have_ended_are_deleted() {
    let file = LockFile::new();
    let Store { backend, .. } = file.store().await;
    let name = |text| semaphore_name(&LockName::new(text).unwrap()).unwrap();
    for (text, times) in [("x", 1), ("y", 40)] {
        for _ in 0..times {
            let contender = Contender::new(&backend);
            contender.queue(&name(text), 1, 1).await;
            contender.free(&name(text)).await;
        }
        let end =
            sqlx::query("update distlock_pool set expires_ms = 1 where name = ?1").bind(name("x").as_str());
        end.execute(&mut raw(&file).await).await.unwrap();
    }
    assert_eq!(pools(&file).await, [name("y").as_str()]);
}
