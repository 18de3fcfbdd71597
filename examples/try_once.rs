//! How do I take a lock only if it is free, and do something else otherwise?

use lock_core::{LockFactory, MemoryBackend};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryBackend::new();
    // Two factories on one store behave like two processes.
    let (here, there) = (LockFactory::new(store.clone()), LockFactory::new(store));

    let held = there.named("nightly-report")?.acquire().await?;
    println!("another process writes the report");

    let report = here.named("nightly-report")?;
    match report.try_acquire().await? {
        Some(_) => return Err("two processes hold one lock".into()),
        None => println!("not free: doing something else without waiting"),
    }

    held.release().await?;
    let Some(guard) = report.try_acquire().await? else {
        return Err("nobody holds the lock, but it is not free".into());
    };
    println!("free: writing the report, with token {}", guard.fencing_token());
    println!("{:?}", guard.release().await);
    Ok(())
}
