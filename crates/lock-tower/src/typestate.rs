//! The states of a [`LockLayer`](crate::LockLayer) under construction.

#[cfg(feature = "axum")]
use crate::{key::KeyTemplate, layer::LockLayer};
#[cfg(feature = "axum")]
use axum::routing::MethodRouter;

/// The state of a layer without a key.
#[derive(Debug, Clone, Copy)]
pub struct NoKey(pub(crate) ());

/// The state of a layer whose handlers determine the key; see
/// [`LockLayer::in_handler`](crate::LockLayer::in_handler).
#[derive(Debug, Clone, Copy)]
pub struct InHandler(pub(crate) ());

/// The policy that cancels a handler when its client disconnects. The handler is dropped at an
/// `.await`, and the lock is released.
#[derive(Debug, Clone, Copy)]
pub struct Cancel(pub(crate) ());

/// The policy that lets a handler continue after its client disconnects; see
/// [`LockLayer::detach`](crate::LockLayer::detach).
#[derive(Debug, Clone, Copy)]
pub struct Detach(pub(crate) ());

/// The policy for client disconnects, as a type: [`Cancel`] or [`Detach`].
#[cfg(feature = "axum")]
pub trait Disconnect: Clone + Sized {
    /// Adds a layer to all methods of a router.
    fn lock_methods<S: Clone + Send + Sync + 'static>(
        router: MethodRouter<S>,
        lock: LockLayer<KeyTemplate, Self>,
    ) -> MethodRouter<S>;
}

#[cfg(feature = "axum")]
impl Disconnect for Cancel {
    fn lock_methods<S: Clone + Send + Sync + 'static>(
        router: MethodRouter<S>,
        lock: LockLayer<KeyTemplate, Self>,
    ) -> MethodRouter<S> {
        router.route_layer(lock)
    }
}

#[cfg(feature = "axum")]
impl Disconnect for Detach {
    fn lock_methods<S: Clone + Send + Sync + 'static>(
        router: MethodRouter<S>,
        lock: LockLayer<KeyTemplate, Self>,
    ) -> MethodRouter<S> {
        router.route_layer(lock)
    }
}
