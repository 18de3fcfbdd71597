//! The backend of a factory, with its optional subscriptions, pipeline and directory.

use super::{Backend, Directory, Pipeline, Subscriptions};
use crate::worker::Worker;
use std::sync::Arc;

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
    /// The pipeline that carries the acquires, renewals and releases of many locks over one connection. Without it,
    /// the methods of `backend` are called.
    pub pipeline: Option<Arc<dyn Pipeline>>,
    /// The directory that keeps the cards of processes and lists the held locks. Without it, an inspection
    /// does not show the holder's process.
    pub directory: Option<Arc<dyn Directory>>,
    /// The runtime in which the store's connections live. Factories also renew their leases there, unless
    /// they are given another worker.
    pub worker: Option<Worker>,
}

impl Store {
    /// Creates a store that does not push releases: waiters poll every 250 ms, and after a second of consecutive holds, a
    /// process leaves the lock to others for 300 ms.
    #[must_use]
    pub fn polling(backend: impl Backend) -> Self {
        Self {
            backend: Arc::new(backend),
            subscriptions: None,
            pipeline: None,
            directory: None,
            worker: None,
        }
    }

    /// Creates a store whose releases are pushed by `subscriptions`.
    #[must_use]
    pub fn pushing(backend: Arc<dyn Backend>, subscriptions: Arc<dyn Subscriptions>) -> Self {
        Self { backend, subscriptions: Some(subscriptions), pipeline: None, directory: None, worker: None }
    }

    /// Adds a pipeline to the store.
    #[must_use]
    pub fn pipelined(self, pipeline: Arc<dyn Pipeline>) -> Self {
        Self { pipeline: Some(pipeline), ..self }
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

impl<B: Backend + Subscriptions> From<Arc<B>> for Store {
    fn from(backend: Arc<B>) -> Self {
        Self::pushing(backend.clone(), backend)
    }
}
