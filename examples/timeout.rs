//! How do I wait for a lock, but not for ever, and tell a busy lock from a broken store?

use lock_core::{LockError, LockErrorKind, LockFactory, MemoryBackend};
use std::{
    error::Error,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockFactory::new(MemoryBackend::new());
    let stock = locks.named("stock:42")?;
    let held = stock.acquire().await?;

    let began = Instant::now();
    let Err(error) = stock.acquire_timeout(PATIENCE).await else {
        return Err("the lock was acquired twice".into());
    };
    assert!(began.elapsed() >= PATIENCE);
    println!("gave up: {error}");
    println!("what to answer: {}", answer(&error));
    assert_eq!(error.kind(), LockErrorKind::Timeout);
    assert!(error.is_retryable(), "the same call may succeed later");

    // Whoever waits gets the lock as soon as it is released, not at the end of the patience.
    let waiting = tokio::spawn(async move { stock.acquire_timeout(Duration::from_secs(60)).await });
    tokio::task::yield_now().await;
    held.release().await?;
    let guard = waiting.await??;
    println!("released in time: acquired with token {}", guard.fencing_token());
    guard.release().await?;
    assert!(began.elapsed() < Duration::from_secs(30));
    Ok(())
}

/// What a web service would say.
fn answer(error: &LockError) -> &'static str {
    match error.kind() {
        LockErrorKind::Timeout | LockErrorKind::TooManyWaiters => "409: others are at it, try again",
        LockErrorKind::Unavailable => "503: the lock store does not answer",
        _ if error.is_retryable() => "503: try again",
        _ => "500: somebody has to look at this",
    }
}
