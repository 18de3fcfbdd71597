//! A store that adds a factory's prefix to each name. Names are translated in this file only.
//!
//! The driver uses the application's names; the store, even a quorum, uses the stored names.

use super::{
    AcquireRequest, Acquired, Backend, BackendError, Capabilities, Directory, ForceReleaseRequest,
    ForceReleased, Inspected, MissedWakes, Operation, Pipeline, ReleaseRequest, Released, RenewRequest,
    Renewed, Reply, Store, SubscriberId, Subscriptions, WakeListener,
};
use crate::{
    ids::ProcessId,
    inspect::{ListLimits, Listing, ProcessCard},
    name::{LockName, Prefix},
    time::UtcTime,
};
use async_trait::async_trait;
use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

/// Returns the store with a prefix: it is added to each name sent to the store, and removed from each name received.
pub(crate) fn with_prefix(store: Store, prefix: &Prefix) -> Store {
    let Store { backend, subscriptions, pipeline, directory, worker } = store;
    let prefix = || prefix.clone();
    Store {
        backend: Arc::new(PrefixedBackend { prefix: prefix(), inner: backend }),
        subscriptions: subscriptions.map(|inner| {
            let listener = OnceLock::new();
            Arc::new(PrefixedSubscriptions { prefix: prefix(), inner, listener }) as _
        }),
        pipeline: pipeline.map(|inner| Arc::new(PrefixedPipeline { prefix: prefix(), inner }) as _),
        directory: directory.map(|inner| Arc::new(PrefixedDirectory { prefix: prefix(), inner }) as _),
        worker,
    }
}

#[derive(Debug)]
struct PrefixedBackend {
    prefix: Prefix,
    inner: Arc<dyn Backend>,
}

#[async_trait]
impl Backend for PrefixedBackend {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.inner.server_now(&self.prefix.stored(name))
    }

    async fn acquire(&self, mut request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        request.name = self.prefix.stored(&request.name);
        self.inner.acquire(request).await
    }

    async fn renew(&self, mut items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        for item in &mut items {
            item.name = self.prefix.stored(&item.name);
        }
        self.inner.renew(items).await
    }

    async fn release(&self, mut request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        request.name = self.prefix.stored(&request.name);
        self.inner.release(request).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.inner.inspect(self.prefix.stored(&name)).await
    }

    async fn force_release(
        &self,
        mut request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        request.name = self.prefix.stored(&request.name);
        self.inner.force_release(request).await
    }
}

#[derive(Debug)]
struct PrefixedPipeline {
    prefix: Prefix,
    inner: Arc<dyn Pipeline>,
}

impl Pipeline for PrefixedPipeline {
    fn submit(&self, mut operation: Operation) {
        let name = match &mut operation {
            Operation::Acquire(request, _) => &mut request.name,
            Operation::Renew(request, _) => &mut request.name,
            Operation::Release(request, _) => &mut request.name,
        };
        *name = self.prefix.stored(name);
        self.inner.submit(operation);
    }
}

#[derive(Debug)]
struct PrefixedSubscriptions {
    prefix: Prefix,
    inner: Arc<dyn Subscriptions>,
    /// The listener of the factory. It is owned here, since stores keep weak references.
    listener: OnceLock<Arc<PrefixedListener>>,
}

#[async_trait]
impl Subscriptions for PrefixedSubscriptions {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        let prefix = self.prefix.clone();
        let own = self.listener.get_or_init(|| Arc::new(PrefixedListener { prefix, inner: listener }));
        let own: Weak<PrefixedListener> = Arc::downgrade(own);
        self.inner.register_listener(own)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.subscribe(subscriber, self.prefix.stored(&name)).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.unsubscribe(subscriber, self.prefix.stored(&name)).await
    }
}

#[derive(Debug)]
struct PrefixedListener {
    prefix: Prefix,
    inner: Weak<dyn WakeListener>,
}

impl WakeListener for PrefixedListener {
    fn released(&self, stored: &LockName) {
        if let (Some(listener), Some(name)) = (self.inner.upgrade(), self.prefix.unstored(stored)) {
            listener.released(&name);
        }
    }

    fn wake_all(&self, reason: MissedWakes) {
        if let Some(listener) = self.inner.upgrade() {
            listener.wake_all(reason);
        }
    }

    fn server_restarted(&self) {
        if let Some(listener) = self.inner.upgrade() {
            listener.server_restarted();
        }
    }
}

#[derive(Debug)]
struct PrefixedDirectory {
    prefix: Prefix,
    inner: Arc<dyn Directory>,
}

/// Cards belong to processes, whose ids have no prefix.
#[async_trait]
impl Directory for PrefixedDirectory {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        self.inner.write_card(process, card, ttl).await
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        self.inner.remove_card(process).await
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        self.inner.read_card(process).await
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        let Listing { names, truncated } = self.inner.list(self.prefix.stored_start(&prefix), limits).await?;
        let names = names.iter().filter_map(|stored| self.prefix.unstored(stored));
        Ok(Listing::new(names, truncated))
    }
}
