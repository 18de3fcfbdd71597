//! Stores that push a release to the processes that wait for it.

use super::{BackendError, SubscriberId, WakeListener};
use crate::name::LockName;
use async_trait::async_trait;
use std::{fmt::Debug, sync::Weak};

/// The wake-ups of a store. A store that cannot push does not implement this trait; its waiters poll.
///
/// Futures of this trait may be dropped at any await; the subscription may or may not exist afterwards.
#[async_trait]
pub trait Subscriptions: Debug + Send + Sync + 'static {
    /// Registers a factory's listener; called once per factory. A dropped listener is removed.
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId;

    /// Requests [`WakeListener::released`] for this name. Returns once the subscription is *acknowledged*: every
    /// later release is reported. Subscribing twice has no further effect.
    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError>;

    /// Ends a subscription created by [`subscribe`](Self::subscribe).
    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError>;
}
