//! A pointer to a backend is a backend.

use super::{
    AcquireRequest, Acquired, Backend, BackendError, Capabilities, ForceRelease, Forced, Inspected,
    ReleaseRequest, Released, RenewItem, Renewed, Reply, Signals, SubscriberId, ledger::RunLedger,
};
use crate::{name::LockName, time::ServerTime};
use async_trait::async_trait;
use std::sync::{Arc, Weak};

macro_rules! forward {
    ($pointer:ident) => {
        #[async_trait]
        impl<B: Backend + ?Sized> Backend for $pointer<B> {
            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }
            fn server_now(&self) -> Option<ServerTime> {
                (**self).server_now()
            }
            fn attach(&self, signals: Weak<dyn Signals>) -> SubscriberId {
                (**self).attach(signals)
            }
            async fn watch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
                (**self).watch(subscriber, name).await
            }
            async fn unwatch(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
                (**self).unwatch(subscriber, name).await
            }
            async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
                (**self).acquire(request).await
            }
            async fn renew(&self, items: Vec<RenewItem>) -> Vec<Result<Reply<Renewed>, BackendError>> {
                (**self).renew(items).await
            }
            async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
                (**self).release(request).await
            }
            async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
                (**self).inspect(name).await
            }
            async fn force_release(&self, request: ForceRelease) -> Result<Reply<Forced>, BackendError> {
                (**self).force_release(request).await
            }
            fn ledger(&self) -> Option<&dyn RunLedger> {
                (**self).ledger()
            }
        }
    };
}

forward!(Arc);
forward!(Box);
