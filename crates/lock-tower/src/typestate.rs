//! The states of a [`LockLayer`](crate::LockLayer) under construction.

#[cfg(feature = "axum")]
use crate::{key::KeyTemplate, layer::LockLayer};
#[cfg(feature = "axum")]
use axum::routing::MethodRouter;

/// No key is set yet.
#[derive(Debug, Clone, Copy)]
pub struct NoKey(pub(crate) ());

/// The handler determines the key; see [`LockLayer::in_handler`](crate::LockLayer::in_handler).
#[derive(Debug, Clone, Copy)]
pub struct InHandler(pub(crate) ());

/// A client that leaves cancels its handler: it is dropped at its `.await`, and the lock is released.
#[derive(Debug, Clone, Copy)]
pub struct Cancel(pub(crate) ());

/// A client that leaves does not stop its handler; see [`LockLayer::detach`](crate::LockLayer::detach).
#[derive(Debug, Clone, Copy)]
pub struct Detach(pub(crate) ());

/// The policy for a client that leaves, as a type: [`Cancel`] or [`Detach`].
#[cfg(feature = "axum")]
pub trait Disconnect: Clone + Sized {
    /// Puts a layer on all methods of a router.
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
