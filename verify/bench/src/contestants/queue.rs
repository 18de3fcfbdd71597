//! The hash floor behind a queue: only one task of a process at a time requests a name from Redis.

use super::{Hash, Lock, Locks};
use crate::Result;
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};
use tokio::sync::{Mutex, OwnedMutexGuard};

pub(crate) struct Queue {
    hash: Hash,
    queues: std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

#[derive(Clone)]
pub(crate) struct QueueLock {
    hash: <Hash as Locks>::Lock,
    queue: Arc<Mutex<()>>,
}

impl Locks for Queue {
    type Lock = QueueLock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self { hash: Hash::connect(url).await?, queues: std::sync::Mutex::default() })
    }

    fn lock(&self, name: &str) -> Result<QueueLock> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(name.to_owned()).or_default().clone();
        Ok(QueueLock { hash: self.hash.lock(name)?, queue })
    }
}

impl Lock for QueueLock {
    type Held = (OwnedMutexGuard<()>, String);

    async fn acquire(&self) -> Result<Self::Held> {
        let first = self.queue.clone().lock_owned().await;
        Ok((first, self.hash.acquire().await?))
    }

    async fn release(&self, (_first, owner): Self::Held) -> Result<()> {
        self.hash.release(owner).await
    }
}
