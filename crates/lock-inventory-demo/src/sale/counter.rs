//! Where a buyer orders: a shop with the lock or one without, in this process or behind the pipes of another.

use super::{SaleError, process::ShopProcess};
use crate::{
    careless::CarelessShop,
    domain::{Answer, Order},
    payment::Payments,
    redis::Redis,
    shop::{Lease, Shop},
    store::Store,
};
use lock_core::{LockFactory, MemoryBackend};
use std::{path::Path, sync::Arc};

#[derive(Debug)]
pub(super) enum Counter {
    Careful(Shop),
    Careless(CarelessShop),
    Process(Arc<ShopProcess>),
}

/// Where locks are, and what their names begin with.
#[derive(Debug)]
pub(super) struct Locks {
    store: lock_core::Store,
    prefix: String,
}

impl Locks {
    /// In the memory of this process, for this sale alone.
    pub(super) fn in_memory() -> Self {
        Self { store: MemoryBackend::new().into(), prefix: String::new() }
    }

    pub(super) fn on(redis: &Redis) -> Self {
        Self { store: redis.locks(), prefix: redis.prefix().into() }
    }
}

impl Counter {
    /// A shop in this process that takes no lock, with a database connection of its own.
    pub(super) async fn careless(
        name: String,
        database: &Path,
        payments: &Payments,
    ) -> Result<Self, SaleError> {
        let store = Store::open(database).await?;
        Ok(Self::Careless(CarelessShop::new(name, store, payments.clone())))
    }

    /// A shop in this process, with a lock factory and a database connection of its own.
    pub(super) async fn careful(
        name: String,
        locks: &Locks,
        lease: Lease,
        database: &Path,
        payments: &Payments,
    ) -> Result<Self, SaleError> {
        let factory = LockFactory::new(locks.store.clone());
        let shop = Shop::new(name, factory, lease, Store::open(database).await?, payments.clone());
        Ok(Self::Careful(shop.with_lock_prefix(&locks.prefix)))
    }

    pub(super) async fn sell(&self, order: &Order) -> Result<Answer, SaleError> {
        match self {
            Self::Careful(shop) => Ok(shop.sell(order).await?),
            Self::Careless(shop) => Ok(shop.sell(order).await?),
            Self::Process(shop) => shop.sell(order).await,
        }
    }

    /// Closes the shop; what it leaves locked is an error.
    pub(super) async fn close(&self) -> Result<(), SaleError> {
        match self {
            Self::Careful(shop) => match shop.close().await.unconfirmed.into_iter().next() {
                Some(name) => Err(SaleError::LeftLocked { name }),
                None => Ok(()),
            },
            Self::Careless(shop) => {
                shop.close().await;
                Ok(())
            }
            Self::Process(shop) => shop.close().await,
        }
    }
}
