//! A call of the store that is given up, and panics because of it.

use crate::support::{World, secs};
use async_trait::async_trait;
use lock_core::{
    LockFactory, LockName, MemoryBackend, Store,
    backend::{
        AcquireRequest, Acquired, AsyncBackend, Backend as _, BackendError, BackendExt as _, Capabilities,
        ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest, Renewed,
        Reply,
    },
    clock::UtcTime,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

struct PanicsOnDrop;
impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("the store's future panics when it is dropped");
    }
}

/// Never answers its first acquire.
#[derive(Debug)]
struct Unruly(MemoryBackend, AtomicBool);

#[async_trait]
impl AsyncBackend for Unruly {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.0.server_now(name)
    }
    async fn acquire(&self, r: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        if !self.1.swap(true, Ordering::SeqCst) {
            let _given_up = PanicsOnDrop;
            std::future::pending::<()>().await;
        }
        self.0.acquire(r).await
    }
    async fn renew(&self, r: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        self.0.renew(r).await
    }
    async fn release(&self, r: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        self.0.release(r).await
    }
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.0.inspect(name).await
    }
    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        self.0.force_release(r).await
    }
}

#[tokio::test(start_paused = true)]
async fn store_future_that_panics_on_drop_loses_no_reply() {
    let world = World::new();
    let store = Arc::new(Unruly(world.store.clone(), AtomicBool::new(false)));
    let store = Store::polling(store).pushing(Arc::new(world.store.clone()));
    let locks = LockFactory::builder(store).clock(world.clock.clone()).build().unwrap();
    let acquired = locks.named("x").unwrap().acquire_timeout(secs(60)).await;
    assert!(acquired.is_ok(), "the attempt is repeated: {acquired:?}");
}
