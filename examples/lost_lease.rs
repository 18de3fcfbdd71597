//! How do I notice that I no longer hold the lock?
//!
//! Nothing renews the lease here, so it ends. With the default options a watchdog renews leases, and the same signal
//! arrives if it cannot: the process was paused, the network was cut, or the lock was forcibly released.

use lock_core::{LockFactory, LostReason, MemoryBackend, ReleaseOutcome};
use std::{error::Error, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("import")?.with_fixed_lease(Duration::from_millis(200))?; // fixed: no watchdog

    let guard = lock.acquire().await?;
    println!("held for at most {:?}", guard.remaining());

    tokio::select! {
        reason = guard.lost() => {
            println!("the work was stopped: {reason}");
            assert_eq!(reason, LostReason::Expired);
        }
        () = import() => return Err("the work outlived its lease".into()),
    }

    assert!(!guard.is_held()); // local: compares the clock, sends no request
    println!("is_held() is {}, remaining() is {:?}", guard.is_held(), guard.remaining());

    let outcome = guard.release().await?;
    println!("release() returns {outcome:?}: the last part of the work was not protected");
    assert_eq!(outcome, ReleaseOutcome::AlreadyExpired);
    Ok(())
}

/// Takes longer than the lease.
async fn import() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}
