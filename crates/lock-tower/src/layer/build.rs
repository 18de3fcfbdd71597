//! The services that a layer creates, by its key and its disconnect policy.

use super::LockLayer;
use crate::{
    buffer::BufferRequest,
    in_handler::InHandlerService,
    key::{BodyKey, KeyTemplate},
    service::LockService,
    typestate::{Disconnect, InHandler},
};
use tower_layer::Layer;

impl<S, K: LayerKey<S, D>, D> Layer<S> for LockLayer<K, D> {
    type Service = K::Service;

    fn layer(&self, inner: S) -> K::Service {
        K::service(self, inner)
    }
}

/// The key of a complete layer.
#[diagnostic::on_unimplemented(
    message = "this `LockLayer` has no key",
    label = "a layer without a key",
    note = "add one with `.key(…)`, `.keys(…)`, `.body_key(…)` or `.in_handler()`, or use `.locked(&lock, …)` on the route"
)]
pub trait LayerKey<S, D>: Sized {
    /// The service of the layer.
    type Service;

    /// Wraps a service.
    fn service(layer: &LockLayer<Self, D>, inner: S) -> Self::Service;
}

impl<S, D: Disconnect> LayerKey<S, D> for KeyTemplate {
    type Service = LockService<D::Handler<S>>;

    fn service(layer: &LockLayer<Self, D>, inner: S) -> Self::Service {
        LockService::new(D::handler(inner), layer.config.clone(), layer.key.clone())
    }
}

impl<S, D: Disconnect> LayerKey<S, D> for BodyKey {
    type Service = BufferRequest<LockService<D::Handler<S>, Self>>;

    fn service(layer: &LockLayer<Self, D>, inner: S) -> Self::Service {
        let locked = LockService::new(D::handler(inner), layer.config.clone(), layer.key.clone());
        layer.key.buffer().layer(locked)
    }
}

impl<S, D: Disconnect> LayerKey<S, D> for InHandler {
    type Service = InHandlerService<D::Handler<S>>;

    fn service(layer: &LockLayer<Self, D>, inner: S) -> Self::Service {
        InHandlerService::new(D::handler(inner), layer.config.clone())
    }
}
