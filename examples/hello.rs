//! How do I let one task at a time do something?
//!
//! A process has one factory; a lock is identified by its name and held while its guard exists. With a backend that
//! machines share, the same code excludes tasks on different machines.

use lock_core::{LockFactory, MemoryBackend, ReleaseOutcome};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockFactory::new(MemoryBackend::new());
    let stock = locks.named("stock:42")?; // no IO: a handle that is cheap to clone

    let guard = stock.acquire().await?; // waits until the lock is free
    println!("{} is held, with fencing token {}", guard.name(), guard.fencing_token());
    assert!(guard.is_held());

    let second = tokio::spawn(stock.acquire());
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    println!("a second task is waiting");

    let first_token = guard.fencing_token();
    let outcome = guard.release().await?;
    println!("released ({outcome:?})");
    assert!(matches!(outcome, ReleaseOutcome::Released | ReleaseOutcome::HandedOn));

    let guard = second.await??;
    assert!(guard.fencing_token() > first_token, "tokens always increase");
    println!("the second task now holds it, with token {}", guard.fencing_token());
    drop(guard); // also releases, in the background; `release().await` returns the outcome

    let report = locks.shutdown().await; // releases all locks and reports failures
    assert!(report.is_clean());
    println!("shut down cleanly");
    Ok(())
}
