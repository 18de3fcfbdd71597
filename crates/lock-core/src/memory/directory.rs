//! The cards and the list of locks of an in-memory store.

use super::MemoryBackend;
use crate::{
    backend::{BackendError, Directory},
    card::ProcessCard,
    ids::ProcessId,
    inspect::{ListLimits, Listing},
    sync::lock,
};
use async_trait::async_trait;
use std::time::Duration;

#[async_trait]
impl Directory for MemoryBackend {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        let now = self.inner.now();
        lock(&self.inner.cards).write(now, process, card, now + ttl);
        Ok(())
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        lock(&self.inner.cards).remove(process);
        Ok(())
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        Ok(lock(&self.inner.cards).read(self.inner.now(), process))
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        let mut names = lock(&self.inner.slots).held(self.inner.now());
        names.retain(|name| !name.is_reserved() && name.as_str().starts_with(&prefix));
        let truncated = names.len() > limits.names();
        names.truncate(limits.names());
        Ok(Listing::new(names, truncated))
    }
}
