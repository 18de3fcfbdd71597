//! The store of a factory: a backend, with its optional subscriptions and directory.

use super::{AsyncBackend, Backend, BackendError, Subscriptions, async_backend::Adapter};
use crate::{
    ids::ProcessId,
    inspect::{ListLimits, Listing, ProcessCard},
    worker::Worker,
};
use async_trait::async_trait;
use std::{fmt::Debug, sync::Arc, time::Duration};

/// A store of locks: a backend, and subscriptions that wake waiters if the store can push.
///
/// Connectors create it and [`LockFactory::new`](crate::LockFactory::new) takes it; backends convert into it. Clones
/// refer to the same store.
///
/// ```
/// use lock_core::{LockFactory, MemoryBackend, Store};
///
/// let store = Store::from(MemoryBackend::new());
/// assert!(store.subscriptions.is_some(), "it pushes");
/// let locks = LockFactory::new(store);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Store {
    /// The backend that stores the leases.
    pub backend: Arc<dyn Backend>,
    /// The subscriptions that wake waiters when a lock is released. Without them, waiters poll, with jitter.
    pub subscriptions: Option<Arc<dyn Subscriptions>>,
    /// The directory that keeps the cards of processes and lists the held locks. Without it, an inspection
    /// does not show the holder's process.
    pub directory: Option<Arc<dyn Directory>>,
    /// The runtime in which the store's connections live, if it has one of its own. Factories also renew their leases
    /// there, unless they are given another worker.
    pub worker: Option<Worker>,
}

impl Store {
    /// Creates a store of a backend. It does not push releases: waiters poll every 250 ms, and after a second of
    /// consecutive holds, a process leaves the lock to others for 300 ms.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, subscriptions: None, directory: None, worker: None }
    }

    /// Creates a store of a backend whose operations are futures. It does not push releases.
    #[must_use]
    pub fn polling(backend: Arc<impl AsyncBackend>) -> Self {
        Self::new(Arc::new(Adapter::new(backend)))
    }

    /// Adds the subscriptions by which the store pushes releases.
    #[must_use]
    pub fn pushing(self, subscriptions: Arc<dyn Subscriptions>) -> Self {
        Self { subscriptions: Some(subscriptions), ..self }
    }

    /// Adds a directory to the store.
    #[must_use]
    pub fn with_directory(self, directory: Arc<dyn Directory>) -> Self {
        Self { directory: Some(directory), ..self }
    }

    /// Sets the runtime in which the store's connections live.
    #[must_use]
    pub fn on(self, worker: Worker) -> Self {
        Self { worker: Some(worker), ..self }
    }
}

/// A store of a backend whose operations are futures, and that pushes releases.
impl<B: AsyncBackend + Subscriptions> From<Arc<B>> for Store {
    fn from(backend: Arc<B>) -> Self {
        Self::polling(backend.clone()).pushing(backend)
    }
}

/// A store's process cards and its list of held locks. Stores without them do not implement this trait.
///
/// These operations do not affect locks, and an account without permission for them can still use locks.
///
/// Futures of this trait may be dropped at any await; a write or a removal may or may not have happened.
#[async_trait]
pub trait Directory: Debug + Send + Sync + 'static {
    /// Stores the card of a process for the duration `ttl`, replacing any earlier one.
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError>;

    /// Removes the card of a process, if there is one.
    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError>;

    /// Reads the card of a process. Returns `None` if there is none, or if the stored data is not a card or is longer
    /// than a card can be. The amount of data read is bounded.
    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError>;

    /// Returns the held locks whose names begin with `prefix`, without [reserved](crate::LockName::RESERVED_PREFIXES)
    /// names. It stops at the limits and reports that the list is truncated.
    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError>;
}
