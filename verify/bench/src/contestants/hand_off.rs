//! The hash floor with a hand-off: a lease is passed to the next task of the process up to 64 times before it is
//! released on Redis.

use super::{Hash, Lock, Locks};
use crate::Result;
use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{Mutex, OwnedMutexGuard};

const MAX_PASSES: u32 = 64;

pub(crate) struct HandOff {
    hash: Hash,
    names: std::sync::Mutex<HashMap<String, Arc<Name>>>,
}

#[derive(Default)]
struct Name {
    waiting: AtomicUsize,
    lease: Arc<Mutex<Option<Lease>>>,
}

pub(crate) struct Lease {
    owner: String,
    passes: u32,
}

#[derive(Clone)]
pub(crate) struct HandOffLock {
    hash: <Hash as Locks>::Lock,
    name: Arc<Name>,
}

impl Locks for HandOff {
    type Lock = HandOffLock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self { hash: Hash::connect(url).await?, names: std::sync::Mutex::default() })
    }

    fn lock(&self, name: &str) -> Result<HandOffLock> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = names.entry(name.to_owned()).or_default().clone();
        Ok(HandOffLock { hash: self.hash.lock(name)?, name: shared })
    }
}

impl Lock for HandOffLock {
    type Held = OwnedMutexGuard<Option<Lease>>;

    async fn acquire(&self) -> Result<Self::Held> {
        self.name.waiting.fetch_add(1, Ordering::Relaxed);
        let mut lease = self.name.lease.clone().lock_owned().await;
        self.name.waiting.fetch_sub(1, Ordering::Relaxed);
        if lease.is_none() {
            *lease = Some(Lease { owner: self.hash.acquire().await?, passes: 0 });
        }
        Ok(lease)
    }

    async fn release(&self, mut held: Self::Held) -> Result<()> {
        let Some(Lease { owner, passes }) = held.take() else {
            return Err("a lease was handed off twice".into());
        };
        if passes < MAX_PASSES && self.name.waiting.load(Ordering::Relaxed) > 0 {
            *held = Some(Lease { owner, passes: passes + 1 });
            return Ok(());
        }
        self.hash.release(owner).await
    }
}
