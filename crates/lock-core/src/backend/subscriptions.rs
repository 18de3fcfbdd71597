//! Stores that push: a release is reported to the processes that wait for it.

use super::{BackendError, SubscriberId, WakeListener};
use crate::name::LockName;
use async_trait::async_trait;
use std::{fmt::Debug, sync::Weak};

/// The wake-ups of a store. A store that cannot push does not implement it: its waiters poll.
///
/// Futures of this trait may be dropped at any await; a subscription may then stand or not.
#[async_trait]
pub trait Subscriptions: Debug + Send + Sync + 'static {
    /// Registers where wake-ups go, once per factory. A listener that is gone is forgotten.
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId;

    /// Asks for [`WakeListener::released`] of this name. Returns when the subscription is *acknowledged*: a release after that
    /// is reported. Subscribing twice is subscribing once.
    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError>;

    /// Ends [`subscribe`](Self::subscribe).
    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError>;
}
