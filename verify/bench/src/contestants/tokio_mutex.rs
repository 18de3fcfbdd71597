//! `tokio::sync::Mutex`, which shows the cost of the measurement itself and of a minimal fair lock in memory.

use super::{Lock, Locks};
use crate::Result;
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};
use tokio::sync::{Mutex, OwnedMutexGuard};

#[derive(Default)]
pub(crate) struct TokioMutex(std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>);

impl Locks for TokioMutex {
    type Lock = Arc<Mutex<()>>;

    async fn connect(_: &str) -> Result<Self> {
        Ok(Self::default())
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(names.entry(name.to_owned()).or_default().clone())
    }
}

impl Lock for Arc<Mutex<()>> {
    type Held = OwnedMutexGuard<()>;

    async fn acquire(&self) -> Result<Self::Held> {
        Ok(self.clone().lock_owned().await)
    }

    async fn release(&self, _held: Self::Held) -> Result<()> {
        Ok(())
    }
}
