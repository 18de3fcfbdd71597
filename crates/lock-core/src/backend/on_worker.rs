//! A store whose operations run in a worker, where its connections live.

use super::{
    AcquireRequest, Acquired, Applied, AsyncBackend, BackendError, BackendErrorKind, Capabilities, Directory,
    ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest, Renewed, Reply,
    SubscriberId, Subscriptions, WakeListener,
};
use crate::{
    ids::ProcessId,
    inspect::{ListLimits, Listing, ProcessCard},
    name::LockName,
    time::UtcTime,
    worker::Worker,
};
use async_trait::async_trait;
use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::oneshot;

/// Runs each operation of a store in a worker.
#[derive(Debug)]
#[doc(hidden)]
pub struct OnWorker<B> {
    inner: Arc<B>,
    worker: Worker,
    tasks: Vec<oneshot::Sender<Infallible>>,
}

impl<B: Send + Sync + 'static> OnWorker<B> {
    /// Runs the operations of `inner` in `worker`.
    #[must_use]
    pub fn new(inner: Arc<B>, worker: Worker) -> Self {
        Self { inner, worker, tasks: Vec::new() }
    }

    /// Runs a task in the worker, with a future that completes when the store ends.
    #[must_use]
    pub fn beside<F>(mut self, task: impl FnOnce(oneshot::Receiver<Infallible>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (ends, ended) = oneshot::channel();
        self.worker.handle().spawn(task(ended));
        self.tasks.push(ends);
        self
    }

    /// Returns the store.
    #[must_use]
    pub fn inner(&self) -> &Arc<B> {
        &self.inner
    }

    /// Returns the worker.
    #[must_use]
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Runs work of the store in the worker.
    ///
    /// # Errors
    /// The error of the work, or [`BackendErrorKind::Unavailable`] if the worker has ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work.
    pub async fn run<T, F>(&self, work: impl FnOnce(Arc<B>) -> F) -> Result<T, BackendError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, BackendError>> + Send + 'static,
    {
        self.worker.run(work(self.inner.clone())).await.unwrap_or_else(|_| {
            let message = "the thread of the store has ended: create a new store";
            Err(BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message))
        })
    }
}

#[doc(hidden)]
#[async_trait]
impl<B: AsyncBackend> AsyncBackend for OnWorker<B> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.inner.server_now(name)
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        self.run(async move |inner| inner.acquire(request).await).await
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let number = items.len();
        let renewed = self.run(async move |inner| Ok(inner.renew(items).await)).await;
        renewed.unwrap_or_else(|error| vec![Err(error); number])
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.run(async move |inner| inner.release(request).await).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.run(async move |inner| inner.inspect(name).await).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.run(async move |inner| inner.force_release(request).await).await
    }
}

#[doc(hidden)]
#[async_trait]
impl<B: Subscriptions> Subscriptions for OnWorker<B> {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.inner.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.run(async move |inner| inner.subscribe(subscriber, name).await).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.run(async move |inner| inner.unsubscribe(subscriber, name).await).await
    }
}

#[doc(hidden)]
#[async_trait]
impl<B: Directory> Directory for OnWorker<B> {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        self.run(async move |inner| inner.write_card(process, card, ttl).await).await
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        self.run(async move |inner| inner.remove_card(process).await).await
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        self.run(async move |inner| inner.read_card(process).await).await
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        self.run(async move |inner| inner.list(prefix, limits).await).await
    }
}
