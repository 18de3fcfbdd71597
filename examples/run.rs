//! How do I run work under a lock, and have it stopped when the lock is lost?

use lock_core::{LockFactory, LostReason, MemoryBackend, RunError};
use std::{error::Error, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("report")?;

    // Acquires, runs, releases. The value is returned only if the lock was held to the end.
    let rows = lock
        .run(|hold| async move {
            println!("writing the report under token {}", hold.fencing_token());
            tokio::time::sleep(Duration::from_millis(10)).await;
            42
        })
        .await?;
    println!("the report has {rows} rows");
    assert_eq!(rows, 42);

    // Work that does not end in time is dropped.
    let endless = std::future::pending::<()>();
    let outcome = lock.with_fixed_lease(Duration::from_millis(200))?.run(|_| endless).await;
    match outcome {
        Err(RunError::Lost(reason)) => {
            println!("endless work was stopped: {reason}");
            assert_eq!(reason, LostReason::Expired);
        }
        other => return Err(format!("endless work was not stopped: {other:?}").into()),
    }

    // An error of the work is an ordinary value: one `?` for the lock, one for the work.
    let failed = lock.run(|_| async { "12 rows".parse::<u32>() }).await?;
    println!("the work itself failed: {}", failed.clone().map_or_else(|e| e.to_string(), |n| n.to_string()));
    assert!(failed.is_err());

    // After a shutdown the work is never started.
    assert!(locks.shutdown().await.is_clean());
    match lock.run(|_| async { println!("this is not printed") }).await {
        Err(RunError::NotAcquired(error)) => println!("the work was not started: {error}"),
        other => return Err(format!("work was started without a lock: {other:?}").into()),
    }
    Ok(())
}
