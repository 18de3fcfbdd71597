//! The holders and waiters of a pool, and the forced end of a permit.

use super::pool::Pool;
use crate::{
    backend::{Inspected, LeaseId, StoredPermit, StoredPool},
    error::LockError,
    ids::ProcessId,
    inspect::{ForceReleaseOutcome, LocalHold, ProcessCard},
};
use std::{collections::BTreeMap, time::Duration};

/// The maximum number of cards that an inspection reads.
const MAX_CARDS: usize = 100;

/// A pool as [`Pool::inspect`] sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolInspection {
    /// The weights of all holders together.
    pub used: u64,
    /// The holders, in no order.
    pub holders: Vec<PoolHolder>,
    /// Those who wait in the store, first come first.
    pub waiters: Vec<PoolHolder>,
    /// The permits of this process.
    pub local: Vec<LocalHold>,
    /// The number of acquires that wait in this process.
    pub local_waiters: usize,
}

/// A holder of a pool, or a waiter.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolHolder {
    /// Its id as stored: `<process uuid>:<number>`.
    pub lease: String,
    /// Its part of the limit.
    pub weight: u32,
    /// The remaining time of its lease, or of its place in the queue, unless it is renewed.
    pub remaining: Duration,
    /// Its process, if that has a card in the store. The cards of at most 100 processes are read.
    pub process: Option<ProcessCard>,
}

impl<K> Pool<K> {
    /// Looks up the pool: its holders and waiters in the store, their processes, and the permits of this process.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let api = locks.semaphore("partner-api", 5)?;
    /// let _permit = api.acquire_many(2).await?;
    /// let found = api.inspect().await?;
    /// assert_eq!((found.used, found.holders.len(), found.waiters.len()), (2, 1, 0));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::Unavailable`](crate::LockErrorKind::Unavailable) or
    /// [`LockErrorKind::Backend`](crate::LockErrorKind::Backend) if the store fails or does not reply within the operation
    /// timeout.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn inspect(&self) -> Result<PoolInspection, LockError> {
        let StoredPool { holders, waiters } = self.stored().await?;
        let mut cards = BTreeMap::new();
        let used = holders.iter().map(|holder| u64::from(holder.weight)).sum();
        let (holders, waiters) =
            (self.with_cards(holders, &mut cards).await, self.with_cards(waiters, &mut cards).await);
        let (local, local_waiters) = self.factory.handle().local_view(&self.spec.name);
        Ok(PoolInspection { used, holders, waiters, local, local_waiters })
    }

    /// Ends the permit of a holder, or the wait of a waiter, by the id that [`inspect`](Self::inspect) has found. The
    /// holder notices at its next renewal, or at its deadline at the latest; a waiter of a process that runs queues again. An
    /// id that the pool does not have is [`ForceReleaseOutcome::HolderChanged`].
    ///
    /// # Errors
    /// [`LockErrorKind::Unavailable`](crate::LockErrorKind::Unavailable) or
    /// [`LockErrorKind::Backend`](crate::LockErrorKind::Backend) if the store fails; the permit may then have ended.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have ended the permit. Repeating the call is safe.
    pub async fn force_release(&self, lease: &str) -> Result<ForceReleaseOutcome, LockError> {
        let freed = self.factory.force_release_of(&self.spec.name, lease).await;
        freed.map_err(|error| error.of(&self.name))
    }

    async fn stored(&self) -> Result<StoredPool, LockError> {
        match self.factory.stored(&self.spec.name).await.map_err(|error| error.of(&self.name))?.outcome {
            Inspected::Pool(pool) => Ok(pool),
            Inspected::Free | Inspected::Held(_) => Ok(StoredPool::default()),
        }
    }

    async fn with_cards(
        &self,
        permits: Vec<StoredPermit>,
        cards: &mut BTreeMap<ProcessId, Option<ProcessCard>>,
    ) -> Vec<PoolHolder> {
        let mut found = Vec::with_capacity(permits.len());
        for StoredPermit { lease, weight, remaining } in permits {
            let process = LeaseId::parse(&lease).map(|lease| lease.process());
            let read = process.filter(|process| !cards.contains_key(process) && cards.len() < MAX_CARDS);
            if let Some(process) = read {
                cards.insert(process, self.factory.card_of(&lease).await);
            }
            let process = process.and_then(|process| cards.get(&process).cloned().flatten());
            found.push(PoolHolder { lease, weight, remaining, process });
        }
        found
    }
}
