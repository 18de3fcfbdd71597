//! The services that a layer creates, by its key and its disconnect policy.

use super::LockLayer;
use crate::{
    buffer::BufferRequest,
    detach::DetachService,
    in_handler::InHandlerService,
    key::{BodyKey, KeyTemplate},
    service::LockService,
    typestate::{Cancel, Detach, InHandler},
};
use tower_layer::Layer;

impl<S> Layer<S> for LockLayer<KeyTemplate, Cancel> {
    type Service = LockService<S>;

    fn layer(&self, inner: S) -> LockService<S> {
        LockService::new(inner, self.config.clone(), self.key.clone())
    }
}

impl<S> Layer<S> for LockLayer<KeyTemplate, Detach> {
    type Service = LockService<DetachService<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService::new(DetachService::new(inner), self.config.clone(), self.key.clone())
    }
}

impl<S> Layer<S> for LockLayer<BodyKey, Cancel> {
    type Service = BufferRequest<LockService<S, BodyKey>>;

    fn layer(&self, inner: S) -> Self::Service {
        let locked = LockService::new(inner, self.config.clone(), self.key.clone());
        self.key.buffer().layer(locked)
    }
}

impl<S> Layer<S> for LockLayer<BodyKey, Detach> {
    type Service = BufferRequest<LockService<DetachService<S>, BodyKey>>;

    fn layer(&self, inner: S) -> Self::Service {
        let locked = LockService::new(DetachService::new(inner), self.config.clone(), self.key.clone());
        self.key.buffer().layer(locked)
    }
}

impl<S> Layer<S> for LockLayer<InHandler, Cancel> {
    type Service = InHandlerService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        InHandlerService::new(inner, self.config.clone())
    }
}

impl<S> Layer<S> for LockLayer<InHandler, Detach> {
    type Service = InHandlerService<DetachService<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        InHandlerService::new(DetachService::new(inner), self.config.clone())
    }
}
