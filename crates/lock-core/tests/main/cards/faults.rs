//! A directory that fails affects no lock.

use super::{FIRST, Fault, RENEWAL, Scene};
use crate::support::{millis, secs};
use lock_core::backend::{Applied, BackendError, BackendErrorKind};
use lock_testkit::ThreadLog;
use std::sync::Arc;
use tokio::{sync::Semaphore, time::Instant};
use tracing::level_filters::LevelFilter;

fn error(kind: BackendErrorKind) -> Fault {
    Fault::Error(BackendError::new(kind, Applied::No, "write a process card: NOPERM"))
}

fn warnings(log: &ThreadLog) -> usize {
    log.text().lines().filter(|line| line.contains("WARN")).count()
}

#[tokio::test(start_paused = true)]
async fn rejected_write_is_logged_once_and_ends_further_writes() {
    let log = ThreadLog::listen(LevelFilter::WARN);
    let scene = Scene::new();
    scene.cards.set(error(BackendErrorKind::Denied));
    let guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(secs(100)).await;
    guard.note("42 %");
    tokio::time::sleep(secs(100)).await;
    assert_eq!(scene.cards.writes(), 1);
    assert_eq!(warnings(&log), 1, "{}", log.text());
    assert!(log.text().contains("no further cards will be written"), "{}", log.text());
    let inspection = scene.other.inspect("x").await.unwrap();
    assert!(inspection.stored.is_some() && inspection.process.is_none());
}

#[tokio::test(start_paused = true)]
async fn outage_is_waited_out_without_a_warning() {
    let log = ThreadLog::listen(LevelFilter::WARN);
    let scene = Scene::new();
    scene.cards.set(error(BackendErrorKind::Unavailable));
    let _guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(FIRST + millis(1)).await;
    assert_eq!(scene.cards.writes(), 1);
    scene.cards.set(Fault::None);
    tokio::time::sleep(RENEWAL).await;
    assert!(scene.stored(&scene.shop).await.is_some());
    assert_eq!(warnings(&log), 0, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn hanging_directory_does_not_delay_locks() {
    let scene = Scene::new();
    scene.cards.set(Fault::Hang);
    let lock = scene.shop.named("x").unwrap();
    let begin = Instant::now();
    lock.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(begin.elapsed(), millis(0));
    tokio::time::sleep(FIRST + millis(1)).await;
    assert_eq!(scene.cards.writes(), 1, "the write hangs");
    let begin = Instant::now();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(begin.elapsed(), millis(0));
    let inspection = scene.other.inspect("x").await.unwrap();
    assert!(inspection.stored.is_some() && inspection.process.is_none());
    drop(guard);
    let begin = Instant::now();
    assert!(scene.shop.shutdown_within(secs(1)).await.is_clean(), "the lock is released");
    assert_eq!(begin.elapsed(), secs(1));
}

/// A panic of the keeper's task would end the watchdog of every lock.
#[tokio::test(start_paused = true)]
async fn panicking_directory_does_not_end_locks() {
    let scene = Scene::new();
    scene.cards.set(Fault::Panic);
    let guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(secs(100)).await;
    assert_eq!(scene.cards.writes(), 1, "it is not asked again");
    assert!(guard.is_held());
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 1, "the keeper's task lives");
    assert!(guard.release().await.unwrap().was_held());
    assert!(scene.shop.shutdown().await.is_clean());
}

/// The write that the shutdown overtakes must not leave the card behind.
#[tokio::test(start_paused = true)]
async fn write_in_progress_leaves_no_card_after_shutdown() {
    let scene = Scene::new();
    let permits = Arc::new(Semaphore::new(0));
    scene.cards.set(Fault::Wait(permits.clone()));
    let guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(FIRST + millis(1)).await;
    assert_eq!(scene.cards.writes(), 1);
    let shop = scene.shop.clone();
    let closing = tokio::spawn(async move { shop.shutdown().await });
    permits.add_permits(1);
    assert!(closing.await.unwrap().is_clean());
    drop(guard);
    tokio::time::sleep(secs(1)).await;
    assert_eq!(scene.stored(&scene.shop).await, None);
}
