//! What a layer tells about itself: events for observers of your own, and metrics.

mod event;
mod observers;
#[cfg(feature = "otel")]
mod otel;

pub use event::{Disposition, LayerEvent, LayerObserver};
#[cfg(feature = "otel")]
pub use otel::OtelLayerObserver;

pub(crate) use observers::Observers;
