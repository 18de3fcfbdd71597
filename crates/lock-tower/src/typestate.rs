//! The states of a [`LockLayer`](crate::LockLayer) under construction.

use crate::detach::DetachService;
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
pub trait Disconnect: Clone + Sized {
    /// The service that runs the handler.
    type Handler<S>;

    /// Wraps the handler.
    fn handler<S>(inner: S) -> Self::Handler<S>;

    /// Adds a layer to all methods of a router.
    #[cfg(feature = "axum")]
    fn lock_methods<S: Clone + Send + Sync + 'static>(
        router: MethodRouter<S>,
        lock: LockLayer<KeyTemplate, Self>,
    ) -> MethodRouter<S>;
}

impl Disconnect for Cancel {
    type Handler<S> = S;

    fn handler<S>(inner: S) -> S {
        inner
    }

    #[cfg(feature = "axum")]
    fn lock_methods<S: Clone + Send + Sync + 'static>(
        router: MethodRouter<S>,
        lock: LockLayer<KeyTemplate, Self>,
    ) -> MethodRouter<S> {
        router.route_layer(lock)
    }
}

impl Disconnect for Detach {
    type Handler<S> = DetachService<S>;

    fn handler<S>(inner: S) -> DetachService<S> {
        DetachService::new(inner)
    }

    #[cfg(feature = "axum")]
    fn lock_methods<S: Clone + Send + Sync + 'static>(
        router: MethodRouter<S>,
        lock: LockLayer<KeyTemplate, Self>,
    ) -> MethodRouter<S> {
        router.route_layer(lock)
    }
}
