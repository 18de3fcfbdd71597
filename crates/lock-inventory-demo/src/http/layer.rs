//! The layer that holds a product's lock while a route's handler runs.

use crate::{domain::Sku, shop::Shop};
use lock_tower::{BufferRequestLayer, KeyTemplate, LockLayer, OnLost, observer::OtelLayerObserver};
use std::time::Duration;

/// Maximum hold time. A section takes milliseconds, or seconds with a slow database.
const MAX_HOLD: Duration = Duration::from_secs(30);

/// Returns the layer that acquires the lock for `{sku}`. Routes add `detach`: a handler dropped
/// between payment and write because its client disconnected would keep the money without writing
/// an order.
///
/// For the same reason, a lost lock is only signalled to the handler. Dropping the handler would
/// not stop a write that was already sent to the database. The fence rejects that write, and the
/// handler refunds the payment.
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

/// Returns the layer that reads the body before the lock is acquired, so a slow upload does not
/// hold a lock.
pub(super) fn buffer() -> BufferRequestLayer {
    BufferRequestLayer::new().limit(super::MAX_BODY)
}
