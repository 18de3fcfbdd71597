//! The `AsyncBackend` implementation. Operations with planned faults go through [`carry_out`].

use super::{FaultyBackend, call::carry_out, fault::Op, fault_plan::FaultPlan};
use async_trait::async_trait;
use lock_core::{
    LockName, Store,
    backend::{
        AcquireRequest, Acquired, AsyncBackend, BackendError, BackendExt as _, Capabilities,
        ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest, Renewed,
        Reply, SubscriberId, Subscriptions, WakeListener,
    },
    clock::UtcTime,
};
use std::{
    fmt,
    sync::{Arc, Weak},
};

#[async_trait]
impl AsyncBackend for FaultyBackend {
    fn capabilities(&self) -> Capabilities {
        self.inner.backend.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.inner.backend.server_now(name)
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let acquire = || {
            let (inner, request) = (self.inner.backend.clone(), request.clone());
            async move { inner.acquire(request).await }
        };
        carry_out(&self.plan, Op::Acquire, acquire, Err).await
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let renew = || {
            let (inner, items) = (self.inner.backend.clone(), items.clone());
            async move { inner.renew(items).await }
        };
        let every = |error: BackendError| items.iter().map(|_| Err(error.clone())).collect();
        carry_out(&self.plan, Op::Renew, renew, every).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let release = || {
            let (inner, request) = (self.inner.backend.clone(), request.clone());
            async move { inner.release(request).await }
        };
        carry_out(&self.plan, Op::Release, release, Err).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.inner.backend.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.inner.backend.force_release(request).await
    }
}

/// The subscriptions of a [`FaultyBackend`] whose store pushes wake-ups.
struct FaultySubscriptions {
    inner: Arc<dyn Subscriptions>,
    plan: Arc<FaultPlan>,
}

impl fmt::Debug for FaultySubscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultySubscriptions").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Subscriptions for FaultySubscriptions {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.inner.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let subscribe = || {
            let (inner, name) = (self.inner.clone(), name.clone());
            async move { inner.subscribe(subscriber, name).await }
        };
        carry_out(&self.plan, Op::Subscribe, subscribe, Err).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let unsubscribe = || {
            let (inner, name) = (self.inner.clone(), name.clone());
            async move { inner.unsubscribe(subscriber, name).await }
        };
        carry_out(&self.plan, Op::Unsubscribe, unsubscribe, Err).await
    }
}

impl FaultyBackend {
    /// Adds the subscriptions of the inner store, if it pushes wake-ups, with planned faults.
    pub(super) fn with_subscriptions(&self, store: Store) -> Store {
        match self.inner.subscriptions.clone() {
            Some(inner) => store.pushing(Arc::new(FaultySubscriptions { inner, plan: self.plan.clone() })),
            None => store,
        }
    }
}

impl From<FaultyBackend> for Store {
    fn from(faulty: FaultyBackend) -> Self {
        faulty.with_subscriptions(Self::polling(Arc::new(faulty.clone())))
    }
}
