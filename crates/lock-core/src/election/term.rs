//! A term: one leadership from its election to its end.

use crate::{hold::Hold, token::FencingToken};
use std::future::Future;
use tokio::sync::watch;

/// A view of a term of leadership, for its body. It cannot end the term, and can outlive it.
#[derive(Debug, Clone)]
pub struct Term {
    hold: Hold,
    /// `true` once the body should end. The channel closes with the term.
    stop: watch::Receiver<bool>,
}

impl Term {
    /// Returns the term of this hold, and the sender that asks its body to end.
    pub(super) fn new(hold: Hold) -> (Self, watch::Sender<bool>) {
        let (asks, stop) = watch::channel(false);
        (Self { hold, stop }, asks)
    }

    /// Returns the fencing token, which lets a resource reject requests from earlier leaders; see [`FencingToken`].
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.fencing_token()
    }

    /// Returns the hold of the lock, which also reports its loss.
    #[must_use]
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Returns `true` if this process leads in this term now. Checks the clock and sends nothing; see
    /// [`Hold::is_held`].
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.hold.is_held()
    }

    /// Completes when the body should end: at shutdown, and after
    /// [`Election::resign`](super::Election::resign). The body then has the
    /// [grace](super::ElectionOptions::grace) period to return. The future also completes when the term has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping the future.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.clone();
        async move {
            // An error means that the term has ended.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }
}
