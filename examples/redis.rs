//! How do I lock across processes and machines, on Redis?
//!
//! `REDIS_URL=redis://127.0.0.1:6379 cargo run -p examples --bin redis`, with a server of your own.
//!
//! With redis-rs, only the import changes: `use lock_redis_rs::RedisBackend;`.

use lock_core::{LockErrorKind, LockFactory};
use lock_fred::RedisBackend;
use std::{env, error::Error, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    // A process needs one backend and one factory. Here are two of each, to show both sides.
    let here = LockFactory::new(RedisBackend::connect(&url).await?);
    let there = LockFactory::new(RedisBackend::connect(&url).await?);

    let guard = here.named("stock:42")?.acquire().await?;
    println!("here: held, with fencing token {}", guard.fencing_token());

    let busy = there.named("stock:42")?.acquire_timeout(Duration::from_millis(200)).await;
    let error = busy.err().ok_or("two processes hold one lock")?;
    assert_eq!(error.kind(), LockErrorKind::Timeout);
    println!("there: {error}");

    // A message wakes the waiter after the release, without polling.
    let waiting = tokio::spawn(there.named("stock:42")?.acquire());
    println!("here: {:?}", guard.release().await?);
    let guard = waiting.await??;
    println!("there: held, with fencing token {}", guard.fencing_token());

    let seen = here.inspect(guard.name()).await?.stored.ok_or("it is held")?;
    println!("stored: the lease {} at depth {}", seen.lease, seen.depth);
    drop(guard);

    for locks in [here, there] {
        assert!(locks.shutdown().await.is_clean()); // releases all locks
    }
    Ok(())
}
