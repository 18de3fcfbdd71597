//! What a layer tells about itself: who got in, who was refused, how long it took.

use crate::reject::RejectReason;
use lock_core::LostReason;
use std::{fmt::Debug, sync::Arc, time::Duration};

/// Hears of every request that needs a lock; those that pass without one are not counted.
///
/// Called in the task of the request, also from Drop: return quickly and do not block. A panic is caught and ends this
/// call alone. What the locks themselves do is told by lock-core's `LockObserver`.
pub trait LayerObserver: Debug + Send + Sync + 'static {
    /// Something happened. `route` is the matched route of axum, or the one given to
    /// [`LockLayer::route`](crate::LockLayer::route); it is never the key.
    fn observe(&self, route: Option<&Arc<str>>, event: &LayerEvent<'_>);
}

/// So that the application can keep the observer and read it.
impl<O: LayerObserver + ?Sized> LayerObserver for Arc<O> {
    fn observe(&self, route: Option<&Arc<str>>, event: &LayerEvent<'_>) {
        (**self).observe(route, event);
    }
}

/// What happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum LayerEvent<'a> {
    /// The lock was acquired, and the handler is called.
    Acquired {
        /// How long it took.
        waited: Duration,
    },
    /// The lock was not acquired.
    NotAcquired {
        /// Why.
        reason: &'a RejectReason,
        /// After which time.
        waited: Duration,
        /// What happened to the request.
        disposition: Disposition,
    },
    /// The client left before it was known whether there is a lock for it.
    Left {
        /// After which time.
        waited: Duration,
    },
    /// The lock was lost while the handler ran, or its body.
    Lost {
        /// How.
        reason: LostReason,
    },
    /// The layer let go of the lock; there is one for each [`Acquired`](Self::Acquired).
    Ended {
        /// For how long it held it.
        held: Duration,
    },
}

/// What happens to a request that does not acquire its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The layer answers with a [`Rejection`](crate::Rejection).
    Rejected,
    /// The handler is called without the lock: the layer allows it
    /// ([`OnUnavailable::Allow`](crate::OnUnavailable::Allow), [`OnBadKey::Allow`](crate::OnBadKey::Allow)), or runs in
    /// [`shadow`](crate::LockLayer::shadow) mode.
    PassedThrough,
}
