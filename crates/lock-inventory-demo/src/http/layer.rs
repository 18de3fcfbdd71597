//! The lock of a product around a route.

use crate::{domain::Sku, shop::Shop};
use lock_tower::{BufferRequestLayer, KeyTemplate, LockLayer, OnLost, observer::OtelLayerObserver};
use std::time::Duration;

/// Longest hold. A section takes some milliseconds, or seconds with a slow database.
const MAX_HOLD: Duration = Duration::from_secs(30);

/// Returns the layer that acquires the lock of `{sku}`. Routes add `detach`: if a handler were dropped between payment
/// and write because its client has left, it would keep the money and write no order.
///
/// For the same reason, a lost lock is only signalled to the handler. Dropping the handler would not stop a write that
/// is already on its way to the database. The fence stops it, and the handler then refunds the payment.
pub(super) fn lock(shop: &Shop) -> LockLayer<KeyTemplate> {
    let layer = LockLayer::new(shop.locks.clone())
        .key(KeyTemplate::of("stock").path_as::<Sku>("sku"))
        .options(shop.config.options)
        .wait(shop.config.wait)
        .max_hold(MAX_HOLD)
        .on_lost(OnLost::Signal)
        .observer(shop.counters.clone())
        .observer(OtelLayerObserver::new(shop.metrics.meter()));
    match &shop.config.observer {
        Some(observer) => layer.observer(observer.clone()),
        None => layer,
    }
}

/// Returns the layer that reads the body before the lock is acquired, so that a slow upload does not hold a lock.
pub(super) fn buffer() -> BufferRequestLayer {
    BufferRequestLayer::new().limit(super::MAX_BODY)
}
