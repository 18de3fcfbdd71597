//! The loop of a candidate: campaign, serve a term, pause.

use super::{
    candidate::Candidate,
    serve::{LeadEnd, Served},
    term::Term,
};
use crate::{error::LockError, time::Backoff};
use std::{
    fmt::{self, Display},
    future::Future,
    pin::pin,
    sync::Arc,
};

/// A candidate that is ready to campaign, with the body of its terms; returned by
/// [`Election::lead`](super::Election::lead).
#[must_use = "nothing happens before `until`"]
pub struct Lead<B> {
    candidate: Arc<Candidate>,
    body: B,
}

impl<B> Lead<B> {
    pub(super) fn new(candidate: Arc<Candidate>, body: B) -> Self {
        Self { candidate, body }
    }

    /// Campaigns and leads until a body returns `Ok`, or until `shutdown` completes.
    ///
    /// At shutdown the body ends first: it is dropped at its current await, or has the
    /// [grace](super::ElectionOptions::grace) period to end by itself. Then the lock is released, and the release is
    /// awaited for at most two operation timeouts. A shutdown during a campaign cancels the campaign.
    ///
    /// Store outages do not end the call. A candidate runs one call at a time: a second one waits until the first has
    /// ended.
    ///
    /// # Errors
    /// [`LockErrorKind::ShutDown`](crate::LockErrorKind::ShutDown) if the factory was shut down, and
    /// [`NoRuntime`](crate::LockErrorKind::NoRuntime) outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future drops the body, then releases the lock in the background. Prefer `shutdown`,
    /// which waits for the release.
    pub async fn until<W, E>(mut self, shutdown: impl Future<Output = ()>) -> Result<LeadEnd, LockError>
    where
        B: FnMut(Term) -> W,
        W: Future<Output = Result<(), E>>,
        E: Display,
    {
        let candidate = &*self.candidate;
        let mut shutdown = pin!(shutdown);
        let _turn = tokio::select! {
            biased;
            () = &mut shutdown => return Ok(LeadEnd::Stopped),
            turn = candidate.turn() => turn,
        };
        let mut backoff = Backoff::new(candidate.options.initial_delay, candidate.options.max_delay);
        loop {
            let guard = tokio::select! {
                biased;
                () = &mut shutdown => return Ok(LeadEnd::Stopped),
                elected = candidate.campaign() => elected?,
            };
            let delay = match candidate.serve(guard, &mut self.body, shutdown.as_mut()).await {
                Served::Last(end) => return Ok(end),
                // The next campaign returns the error.
                Served::FactoryShutDown => continue,
                Served::Failed(led) => {
                    if led >= candidate.options.max_delay {
                        backoff.reset();
                    }
                    backoff.next_wait()
                }
                // It does not grow: an outage that ends several terms must not leave the election without candidates.
                Served::Ended => candidate.options.initial_delay,
            };
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(LeadEnd::Stopped),
                () = candidate.pause(delay) => {}
            }
        }
    }
}

impl<B> fmt::Debug for Lead<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").field("name", self.candidate.lock.name()).finish_non_exhaustive()
    }
}
