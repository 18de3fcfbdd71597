//! Where a buyer orders: a shop with the lock or one without, each with its own connection and lock factory, as
//! if it were a process of its own.

use super::{Plan, STALLED_LEASE, SaleError};
use crate::{
    careless::CarelessShop,
    domain::{Answer, Order},
    payment::Payments,
    shop::{Lease, Shop, ShopError},
    store::Store,
};
use lock_core::{LockFactory, MemoryBackend};
use std::{path::Path, sync::Arc};

#[derive(Debug)]
pub(super) enum Counter {
    Careful(Shop),
    Careless(CarelessShop),
}

impl Counter {
    pub(super) async fn sell(&self, order: &Order) -> Result<Answer, ShopError> {
        match self {
            Self::Careful(shop) => shop.sell(order).await,
            Self::Careless(shop) => shop.sell(order).await,
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
        }
    }
}

pub(super) async fn careless(
    plan: &Plan,
    path: &Path,
    payments: &Payments,
) -> Result<Vec<Arc<Counter>>, SaleError> {
    let mut shops = Vec::new();
    for number in 1..=plan.shops {
        let shop = CarelessShop::new(format!("shop {number}"), Store::open(path).await?, payments.clone());
        shops.push(Arc::new(Counter::Careless(shop)));
    }
    Ok(shops)
}

pub(super) async fn careful(
    plan: &Plan,
    path: &Path,
    locks: &MemoryBackend,
    payments: &Payments,
) -> Result<Vec<Arc<Counter>>, SaleError> {
    let mut shops = Vec::new();
    for number in 1..=plan.shops {
        shops.push(locked(format!("shop {number}"), Lease::Watched, path, locks, payments).await?);
    }
    Ok(shops)
}

pub(super) async fn stalled(
    path: &Path,
    locks: &MemoryBackend,
    payments: &Payments,
) -> Result<Arc<Counter>, SaleError> {
    locked("stalled shop".into(), Lease::Fixed(STALLED_LEASE), path, locks, payments).await
}

async fn locked(
    name: String,
    lease: Lease,
    path: &Path,
    locks: &MemoryBackend,
    payments: &Payments,
) -> Result<Arc<Counter>, SaleError> {
    let (locks, store) = (LockFactory::new(locks.clone()), Store::open(path).await?);
    Ok(Arc::new(Counter::Careful(Shop::new(name, locks, lease, store, payments.clone()))))
}
