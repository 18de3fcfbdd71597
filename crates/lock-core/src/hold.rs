//! The shared view of a hold.

use crate::{
    driver::HoldState,
    ids::LeaseId,
    machine::{HoldEnd, HoldId, LostReason},
    name::LockName,
    owner::Owner,
    token::FencingToken,
};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// A cloneable, read-only view of a held lock. It cannot release the lock.
///
/// It may outlive the guards, and then has the reason why the hold ended.
#[derive(Clone)]
pub struct Hold {
    state: Arc<HoldState>,
}

impl Hold {
    pub(crate) fn new(state: Arc<HoldState>) -> Self {
        Self { state }
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.state.name
    }

    /// The owner of the hold. Acquiring with it re-enters.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.state.owner
    }

    /// The number by which a resource refuses older holders.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.state.token
    }

    /// The id under which the store keeps the holder.
    #[must_use]
    pub fn lease_id(&self) -> LeaseId {
        self.state.lease
    }

    /// Whether the hold is valid now. After a guard was dropped this may stay `true` for the moment that the
    /// worker needs to release it. Compares the clock and sends nothing, so the first call after a pause of this
    /// process is right. Once `false`, always `false`.
    ///
    /// A `true` may be outdated by the next instruction; what must not be done by an outdated holder has to be
    /// fenced ([`FencingToken`]).
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state.ensure_watchdog();
        self.state.ended().is_none()
    }

    /// The time for which the hold is valid without a further renewal; zero if it ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.state.remaining()
    }

    /// Completes when the hold has ended, and says how.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping it.
    pub fn ended(&self) -> impl Future<Output = HoldEnd> + Send + 'static {
        let state = self.state.clone();
        state.wait_ended()
    }

    /// Completes when the hold is lost; never if it is released.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping it.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let ended = self.ended();
        async move {
            match ended.await {
                HoldEnd::Lost(reason) => reason,
                HoldEnd::Released => std::future::pending().await,
            }
        }
    }

    pub(crate) fn id(&self) -> HoldId {
        self.state.id()
    }

    /// Why the hold is lost, if it is. Compares the clock, as [`is_held`](Self::is_held) does.
    #[doc(hidden)]
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        match self.state.ended() {
            Some(HoldEnd::Lost(reason)) => Some(reason),
            _ => None,
        }
    }

    /// A token that is cancelled when the hold has ended. It costs a task, which lives as long as the hold.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[cfg(feature = "cancellation-token")]
    #[must_use]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        let token = tokio_util::sync::CancellationToken::new();
        let (ended, cancel) = (self.ended(), token.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = ended => cancel.cancel(),
                () = cancel.cancelled() => {}
            }
        });
        token
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}
