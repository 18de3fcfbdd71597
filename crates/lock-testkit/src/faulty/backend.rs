//! The backend trait, passed on through [`carry_out`] where faults are planned.

use super::{FaultyBackend, call::carry_out, fault::Op};
use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, LockName, ServerTime,
    backend::{
        AcquireRequest, Acquired, Capabilities, ForceRelease, Forced, Inspected, ReleaseRequest, Released,
        RenewItem, Renewed, Reply, Signals, SubscriberId, ledger::RunLedger,
    },
};
use std::sync::Weak;

#[async_trait]
impl Backend for FaultyBackend {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn server_now(&self) -> Option<ServerTime> {
        self.inner.server_now()
    }

    fn attach(&self, signals: Weak<dyn Signals>) -> SubscriberId {
        self.inner.attach(signals)
    }

    async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let watch = || {
            let (inner, name) = (self.inner.clone(), name.clone());
            async move { inner.watch(subscriber, name).await }
        };
        carry_out(&self.desk, Op::Watch, watch, Err).await
    }

    async fn unwatch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let unwatch = || {
            let (inner, name) = (self.inner.clone(), name.clone());
            async move { inner.unwatch(subscriber, name).await }
        };
        carry_out(&self.desk, Op::Unwatch, unwatch, Err).await
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let acquire = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inner.acquire(request).await }
        };
        carry_out(&self.desk, Op::Acquire, acquire, Err).await
    }

    async fn renew(&self, items: Vec<RenewItem>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let renew = || {
            let (inner, items) = (self.inner.clone(), items.clone());
            async move { inner.renew(items).await }
        };
        let every = |error: BackendError| items.iter().map(|_| Err(error.clone())).collect();
        carry_out(&self.desk, Op::Renew, renew, every).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let release = || {
            let (inner, request) = (self.inner.clone(), request.clone());
            async move { inner.release(request).await }
        };
        carry_out(&self.desk, Op::Release, release, Err).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.inner.inspect(name).await
    }

    async fn force_release(&self, request: ForceRelease) -> Result<Reply<Forced>, BackendError> {
        self.inner.force_release(request).await
    }

    fn ledger(&self) -> Option<&dyn RunLedger> {
        self.inner.ledger().filter(|_| !self.hides_ledger).map(|_| self as &dyn RunLedger)
    }
}
