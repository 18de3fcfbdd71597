//! How do I wait for a lock for a limited time, and tell a busy lock from a failing store?

use lock_core::{LockError, LockErrorKind, LockFactory, MemoryBackend};
use std::{
    error::Error,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_millis(100);

#[tokio::main]
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
    println!("response: {}", answer(&error));
    assert_eq!(error.kind(), LockErrorKind::Timeout);
    assert!(error.is_retryable(), "the same call may succeed later");

    // A waiter acquires the lock as soon as it is released, not at the end of its timeout.
    let waiting = tokio::spawn(async move { stock.acquire_timeout(Duration::from_secs(60)).await });
    tokio::task::yield_now().await;
    held.release().await?;
    let guard = waiting.await??;
    println!("released in time: acquired with token {}", guard.fencing_token());
    println!("{:?}", guard.release().await);
    assert!(began.elapsed() < Duration::from_secs(30));
    Ok(())
}

/// Maps an error to a response, with the statuses of `lock-tower`. A single try that finds the lock held is a 409.
fn answer(error: &LockError) -> &'static str {
    match error.kind() {
        LockErrorKind::Timeout | LockErrorKind::TooManyWaiters => "503: others hold the lock, try again",
        _ if error.is_retryable() => "503: the lock store does not reply, try again",
        _ => "500: the program or its settings are wrong",
    }
}
