//! The library `rslock`, used as in its documentation.

use super::{Lock, Locks, nodes};
use crate::Result;
use rslock::{LockGuard, LockManager};
use std::{sync::Arc, time::Duration};

/// The lease of our default options, because `rslock` has no default.
const TTL: Duration = Duration::from_secs(30);

pub(crate) struct Rslock(LockManager);

#[derive(Clone)]
pub(crate) struct RslockLock {
    manager: LockManager,
    name: Arc<str>,
}

impl Locks for Rslock {
    type Lock = RslockLock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockManager::new(nodes(url))))
    }

    fn lock(&self, name: &str) -> Result<RslockLock> {
        Ok(RslockLock { manager: self.0.clone(), name: name.into() })
    }
}

impl Lock for RslockLock {
    type Held = LockGuard;

    async fn acquire(&self) -> Result<LockGuard> {
        Ok(self.manager.acquire(&*self.name, TTL).await?)
    }

    /// Releases the lock. `rslock` does not report that a lock was already lost.
    async fn release(&self, held: LockGuard) -> Result<()> {
        held.release().await;
        Ok(())
    }
}
