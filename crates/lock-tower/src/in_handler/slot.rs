//! The channel from a handler to the layer that acquires its lock.

use crate::{
    handle::{Held, LockHandle, LockMissing, LockSetHandle, LockStatus, LockView},
    key::KeyError,
};
use lock_core::{__private::lock, LockName, NameError, names::LockNames};
use std::{
    fmt,
    sync::{Arc, Mutex, Weak},
};
use tokio::sync::oneshot;

/// A slot through which a handler acquires its lock, with names built from several values, such as
/// the path and the body. The route needs a layer created by
/// [`in_handler`](crate::LockLayer::in_handler), whose settings apply to the lock.
///
/// With axum, it is an extractor. Otherwise, it is in the request extensions.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::{Router, extract::Path, routing::post};
/// use lock_core::LockName;
/// use lock_tower::{LockLayer, LockMissing, LockSlot};
/// # use lock_core::{LockFactory, MemoryBackend};
/// # let locks = LockFactory::new(MemoryBackend::new());
///
/// async fn order(Path(house): Path<u64>, slot: LockSlot, sku: String) -> Result<String, LockMissing> {
///     let lock = slot.lock(LockName::of(("stock", house, &sku))).await?;
///     Ok(format!("sold one {sku} under token {}", lock.fencing_token()))
/// }
///
/// let order = post(order).layer(LockLayer::new(locks).in_handler());
/// let app: Router = Router::new().route("/houses/{house}/orders", order);
/// # }
/// ```
#[derive(Clone)]
pub struct LockSlot(Option<Arc<Mutex<Option<oneshot::Sender<LockCall>>>>>);

/// A handler's request for its lock.
pub(super) struct LockCall {
    pub(super) names: Result<LockNames, KeyError>,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// The result of a lock call. If the handler drops the call before it reads the result, the lock is
/// released.
pub(super) struct Answer {
    status: LockStatus,
    unread: Weak<Held>,
}

impl Answer {
    pub(super) fn new(status: LockStatus, held: Option<&Arc<Held>>) -> Self {
        Self { status, unread: held.map(Arc::downgrade).unwrap_or_default() }
    }

    fn read(mut self) -> LockStatus {
        self.unread = Weak::new();
        self.status.clone()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(held) = self.unread.upgrade() {
            held.give_up();
        }
    }
}

impl LockSlot {
    /// Creates a slot from the channel for the handler's call.
    pub(super) fn new(ask: oneshot::Sender<LockCall>) -> Self {
        Self(Some(Arc::new(Mutex::new(Some(ask)))))
    }

    /// Creates a slot for a request that needs no lock.
    pub(crate) fn not_needed() -> Self {
        Self(None)
    }

    /// Returns `true` if the request needs a lock.
    #[cfg(feature = "axum")]
    pub(crate) fn is_needed(&self) -> bool {
        self.0.is_some()
    }

    /// Acquires the lock with this name. If the layer rejects the request, it responds and drops
    /// the handler at this `.await`. Invalid names are rejected with 400 in the same way.
    ///
    /// # Errors
    /// - [`LockMissing::Unlocked`] if the layer lets the request run without its lock;
    /// - [`LockMissing::NoLayer`] if the layer's filter let the request pass;
    /// - [`LockMissing::SecondLock`] if a lock was already requested for this request;
    /// - [`LockMissing::RequestEnded`] if the request has ended, for example in a task that outlives it.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future leaves the queue or releases the lock. The handler cannot
    /// request another lock.
    pub async fn lock(&self, name: Result<LockName, NameError>) -> Result<LockHandle, LockMissing> {
        self.acquire(name.map(LockNames::from)).await
    }

    /// Acquires several locks together, in the same order in every request.
    ///
    /// ```
    /// # use lock_core::{LockName, names::LockNames};
    /// # async fn handler(slot: lock_tower::LockSlot, from: u64, to: u64) -> Result<(), lock_tower::LockMissing> {
    /// let accounts = [from, to].into_iter().map(|account| LockName::of(("account", account)));
    /// let locks = slot.lock_all(accounts.collect()).await?;
    /// # drop(locks); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// Cancel safe, like [`lock`](Self::lock).
    pub async fn lock_all(&self, names: Result<LockNames, NameError>) -> Result<LockSetHandle, LockMissing> {
        let several = |names: LockNames| names.into_iter().collect();
        self.acquire(names.map(several)).await
    }

    async fn acquire<H: LockView>(&self, names: Result<LockNames, NameError>) -> Result<H, LockMissing> {
        let status = self.status(names).await;
        status.and_then(|status| H::of(status.as_ref())).map_err(|missing| missing.log(None))
    }

    /// Waits for the locks with these names, or for the decision to continue without them. Returns
    /// `None` if the request needs no lock.
    pub(crate) async fn status(
        &self,
        names: Result<LockNames, NameError>,
    ) -> Result<Option<LockStatus>, LockMissing> {
        let Some(ask) = &self.0 else { return Ok(None) };
        let ask = lock(ask).take().ok_or(LockMissing::SecondLock)?;
        let (reply, decided) = oneshot::channel();
        let call = LockCall { names: names.map_err(KeyError::from), reply };
        ask.send(call).map_err(|_| LockMissing::RequestEnded)?;
        decided.await.map(|answer| Some(answer.read())).map_err(|_| LockMissing::RequestEnded)
    }
}

impl fmt::Debug for LockSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockSlot").finish_non_exhaustive()
    }
}
