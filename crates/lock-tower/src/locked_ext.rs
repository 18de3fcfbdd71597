//! An extension trait that adds locks to axum's method routers.

use crate::{
    key::{InvalidKey, KeyTemplate},
    layer::LockLayer,
};
use axum::{
    extract::Request,
    response::IntoResponse,
    routing::{MethodRouter, Route},
};
use std::convert::Infallible;
use tower_layer::Layer;
use tower_service::Service;

/// Locks the methods of a route: `post(order).locked(&lock, "stock:{sku}")`.
///
/// The lock applies only to the methods that the router already has. Requests with other methods
/// are rejected with 405. CORS preflight requests, and HEAD requests without a GET handler, take no
/// lock. HEAD on a route with a locked GET runs the GET handler and needs the lock.
///
/// ```
/// use axum::{Router, extract::Path, routing::{get, post}};
/// use lock_tower::{KeyTemplate, LockHandle, LockLayer, LockedExt};
/// # use lock_core::{LockFactory, MemoryBackend};
/// # let locks = LockFactory::new(MemoryBackend::new());
///
/// async fn list(Path(sku): Path<u64>) {}
/// async fn order(lock: LockHandle, Path(sku): Path<u64>) {}
/// async fn transfer(Path((from, to)): Path<(u64, u64)>) {}
///
/// let lock = LockLayer::new(locks); // one for all routes
/// let sku = KeyTemplate::template("stock:{sku}").typed::<u64>("sku");
/// let app: Router = Router::new()
///     .route("/skus/{sku}/orders", get(list).merge(post(order).locked(&lock, sku)))
///     .route("/moves/{from}/{to}", post(transfer).locked_all(&lock, ["stock:{from}", "stock:{to}"]));
/// ```
///
/// A method router's path is unknown until a request arrives. If the path lacks a template
/// parameter, every request is rejected with 500 and takes no lock. The parameters that exist are
/// logged once.
pub trait LockedExt: Sized + sealed::Sealed {
    /// Adds a lock with one key, given as a template or a [`KeyTemplate`].
    ///
    /// # Panics
    /// Panics if the template is malformed, or if the router has no methods, as with `any`.
    #[track_caller]
    fn locked<T, D>(self, lock: &LockLayer<(), D>, key: T) -> Self
    where
        T: TryInto<KeyTemplate>,
        InvalidKey: From<T::Error>,
        D: Clone,
        LockLayer<KeyTemplate, D>: RouteLayer;

    /// Adds locks with several keys, which a request acquires together; see [`LockLayer::keys`].
    ///
    /// # Panics
    /// Panics if a template is malformed, if the router has no methods, or if there are no keys or more than 64.
    #[track_caller]
    fn locked_all<I, D>(self, lock: &LockLayer<(), D>, keys: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<KeyTemplate>,
        InvalidKey: From<<I::Item as TryInto<KeyTemplate>>::Error>,
        D: Clone,
        LockLayer<KeyTemplate, D>: RouteLayer;
}

impl<S: Clone + Send + Sync + 'static> LockedExt for MethodRouter<S, Infallible> {
    fn locked<T, D>(self, lock: &LockLayer<(), D>, key: T) -> Self
    where
        T: TryInto<KeyTemplate>,
        InvalidKey: From<T::Error>,
        D: Clone,
        LockLayer<KeyTemplate, D>: RouteLayer,
    {
        assert_has_methods(&self);
        lock.clone().key(key).around(self)
    }

    fn locked_all<I, D>(self, lock: &LockLayer<(), D>, keys: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<KeyTemplate>,
        InvalidKey: From<<I::Item as TryInto<KeyTemplate>>::Error>,
        D: Clone,
        LockLayer<KeyTemplate, D>: RouteLayer,
    {
        assert_has_methods(&self);
        lock.clone().keys(keys).around(self)
    }
}

/// A layer that axum accepts around the methods of a route.
pub trait RouteLayer {
    /// Adds the layer to all methods that a router has.
    fn around<S: Clone + Send + Sync + 'static>(self, router: MethodRouter<S>) -> MethodRouter<S>;
}

impl<L> RouteLayer for L
where
    L: Layer<Route> + Clone + Send + Sync + 'static,
    L::Service: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
    <L::Service as Service<Request>>::Response: IntoResponse + 'static,
    <L::Service as Service<Request>>::Future: Send + 'static,
{
    fn around<S: Clone + Send + Sync + 'static>(self, router: MethodRouter<S>) -> MethodRouter<S> {
        router.route_layer(self)
    }
}

/// Panics if a router has no methods. axum would panic too, but could not say what to do. Only its `Debug` shows the
/// methods, each as `None` or a handler, in front of the fallback.
#[track_caller]
fn assert_has_methods<S>(router: &MethodRouter<S>) {
    const METHODS: usize = 9;
    let text = format!("{router:?}");
    let methods = text.split("fallback").next().unwrap_or_default();
    assert!(
        methods.matches("None").count() < METHODS,
        "there are no methods to lock: name them, as in `get(handler).post(handler).locked(…)`, or lock all of them with \
         `any(handler.layer(lock.key(…)))`"
    );
}

mod sealed {
    pub trait Sealed {}

    impl<S> Sealed for axum::routing::MethodRouter<S, std::convert::Infallible> {}
}
