//! How do I feed my own metrics, without OpenTelemetry or with a version of it that this crate does not use?

use lock_core::{
    LockFactory, MemoryBackend,
    observer::{AcquireOutcome, LockEvent, LockEventKind, LockObserver, ReleaseKind},
};
use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

#[derive(Debug, Default)]
struct Counts {
    acquired: AtomicI64,
    timed_out: AtomicI64,
    held_now: AtomicI64,
    lost: AtomicI64,
    dropped: AtomicI64,
}

impl LockObserver for Counts {
    // Called wherever the event happens, even in Drop: count and return.
    fn on_event(&self, event: &LockEvent<'_>) {
        let count = |counter: &AtomicI64, by| _ = counter.fetch_add(by, Relaxed);
        match &event.kind {
            LockEventKind::WaitEnded { outcome: AcquireOutcome::Acquired, .. } => count(&self.acquired, 1),
            LockEventKind::WaitEnded { outcome: AcquireOutcome::Timeout, .. } => count(&self.timed_out, 1),
            LockEventKind::Granted { .. } => count(&self.held_now, 1),
            LockEventKind::GuardReleased { kind: ReleaseKind::Dropped, .. } => count(&self.dropped, 1),
            LockEventKind::Ended { .. } => {
                count(&self.held_now, -1);
                count(&self.lost, i64::from(event.lost_reason().is_some()));
            }
            _ => {}
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let counts = Arc::new(Counts::default()); // one clone for the factory, one to read
    let locks = LockFactory::builder(MemoryBackend::new()).observer(counts.clone()).build()?;
    let lock = locks.named("stock:42")?;

    let released = lock.acquire().await?;
    assert!(lock.acquire_timeout(Duration::from_millis(20)).await.is_err());
    released.release().await?;
    drop(lock.acquire().await?);
    let short = lock.with_fixed_lease(Duration::from_millis(100))?.acquire().await?;
    short.lost().await;
    let held = lock.acquire().await?;

    let Counts { acquired, timed_out, held_now, lost, dropped } = &*counts;
    let seen = [acquired, timed_out, held_now, lost, dropped].map(|counter| counter.load(Relaxed));
    let [acquired, timed_out, held_now, lost, dropped] = seen;
    println!(
        "acquired {acquired}, timed out {timed_out}, held now {held_now}, lost {lost}, dropped {dropped}"
    );
    assert_eq!(seen, [4, 1, 1, 1, 1]);
    held.release().await?;
    Ok(())
}
