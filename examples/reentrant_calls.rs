//! How do functions that call one another take the same lock independently?
//!
//! Every acquisition has a new owner, so a second acquire in the same task would wait for the first one. To re-enter,
//! a function receives the owner as a value.

use lock_core::{LockError, LockFactory, MemoryBackend, Owner, ReleaseOutcome};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockFactory::new(MemoryBackend::new());

    let me = locks.owner();
    transfer(&locks, &me).await?;
    assert!(
        locks.named("accounts")?.try_acquire().await?.is_some(),
        "as many releases as acquires: free again"
    );
    println!("the lock is free again");

    // Without the owner, a function counts as another party, even in the same task.
    let guard = locks.named("accounts")?.with_owner(&me)?.acquire().await?;
    assert!(locks.named("accounts")?.try_acquire().await?.is_none());
    println!("without the owner, the same task is refused");

    // A guard can also be re-entered directly.
    let again = guard.reenter().await?;
    assert_eq!(guard.release().await?, ReleaseOutcome::StillHeld { depth: 1 });
    assert!(again.is_held());
    assert_eq!(again.release().await?, ReleaseOutcome::Released);
    println!("a guard re-entered by itself");
    Ok(())
}

/// Holds the lock during both of its steps.
async fn transfer(locks: &LockFactory, me: &Owner) -> Result<(), LockError> {
    let guard = locks.named("accounts")?.with_owner(me)?.acquire().await?;
    println!("transfer holds the lock with token {}", guard.fencing_token());
    for account in ["alice", "bob"] {
        book(locks, me, account).await?;
    }
    assert_eq!(guard.release().await?, ReleaseOutcome::Released);
    Ok(())
}

/// Acquires the lock itself. It is correct whether or not the caller already holds the lock.
async fn book(locks: &LockFactory, me: &Owner, account: &str) -> Result<(), LockError> {
    let guard = locks.named("accounts")?.with_owner(me)?.acquire().await?;
    println!("  book({account}) re-entered with the same token {}", guard.fencing_token());
    assert_eq!(guard.release().await?, ReleaseOutcome::StillHeld { depth: 1 });
    Ok(())
}
