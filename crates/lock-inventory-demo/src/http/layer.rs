//! The lock of a product around a route.

use crate::{domain::Sku, shop::Shop};
use lock_tower::{BufferRequestLayer, KeyTemplate, LockLayer, OnLost, observer::OtelLayerObserver};
use std::time::Duration;

/// The longest hold. A section takes some milliseconds; with a slow database, seconds.
const MAX_HOLD: Duration = Duration::from_secs(30);

/// The layer that takes the lock of `{sku}`. Routes add `detach`: a handler that is dropped between payment and write, because its
/// client has left, would keep the money and write no order.
///
/// For the same reason a lost lock is only signalled. Dropping the handler would not stop a write that is already on its way to the
/// database; the fence does, and the handler then returns the payment.
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

/// The layer that reads the body before the lock is taken: a slow upload keeps no product.
pub(super) fn buffer() -> BufferRequestLayer {
    BufferRequestLayer::new().limit(super::MAX_BODY)
}
