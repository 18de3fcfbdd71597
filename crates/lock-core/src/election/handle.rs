//! The handle of an election, and the loop of a candidate: campaign, serve a term, pause.

use super::{
    candidate::{Candidate, LeadEnd, Role, Served, Term},
    options::ElectionOptions,
};
use crate::{
    error::LockError,
    factory::LockFactory,
    name::{LockName, NameError},
    time::Backoff,
};
use std::{
    fmt::{self, Display},
    future::Future,
    pin::pin,
    sync::Arc,
};
use tokio::sync::watch;

/// This process as a candidate in a named election; returned by [`LockFactory::election`] without any IO.
///
/// Clones refer to the same candidate: use one to [lead](Self::lead) in a task, and another to watch the
/// [role](Self::role) or to [resign](Self::resign).
#[derive(Debug, Clone)]
pub struct Election {
    candidate: Arc<Candidate>,
}

impl LockFactory {
    /// Returns the election with this name and the default [options](ElectionOptions), without any IO. The lease is
    /// shorter than 15 s if the limits of this factory or its backend require it.
    ///
    /// The leader holds the lock with the same name. Any other holder of that lock counts as a leader, so give
    /// elections names of their own.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let election = locks.election("outbox")?;
    /// assert!(!election.role().borrow().is_leading(), "it does not campaign yet");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`named`](Self::named).
    pub fn election<N>(&self, name: N) -> Result<Election, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        let defaults = ElectionOptions::within(self.handle().limits.max_lease);
        let candidate = Candidate::new(self.clone(), self.named(name)?, defaults)?;
        Ok(Election { candidate: Arc::new(candidate) })
    }
}

impl Election {
    /// Returns the same election with these options, as a new candidate.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::election::ElectionOptions;
    /// use std::time::Duration;
    ///
    /// let options = ElectionOptions::new().lease(Duration::from_secs(5)).grace(Duration::from_secs(2));
    /// let election = locks.election("outbox")?.with_options(options)?;
    /// assert_eq!(election.options(), options);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](crate::LockErrorKind::InvalidOptions) if the options contradict each other or
    /// exceed the factory's limits.
    pub fn with_options(self, options: ElectionOptions) -> Result<Self, LockError> {
        let Candidate { locks, lock, .. } = &*self.candidate;
        let candidate = Candidate::new(locks.clone(), lock.clone(), options)?;
        Ok(Self { candidate: Arc::new(candidate) })
    }

    /// Returns the name.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// assert_eq!(locks.election("outbox")?.name().as_str(), "outbox");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.candidate.lock.name()
    }

    /// Returns the options.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use std::time::Duration;
    ///
    /// let election = locks.election("outbox")?;
    /// let patient = election.options().back_off(Duration::from_secs(5), Duration::from_secs(60));
    /// let election = election.with_options(patient)?;
    /// # Ok(()) }
    /// ```
    pub fn options(&self) -> ElectionOptions {
        self.candidate.options
    }

    /// Prepares to campaign, and to run `body` in each term. Nothing happens before [`Lead::until`].
    ///
    /// `body` is called once for each term. An `Ok` ends the campaigns; after an `Err` or a panic this process resigns,
    /// and campaigns again after the back-off. Changes that a panicking body made stay visible to the next call.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::election::{LeadEnd, Term};
    /// use std::convert::Infallible;
    ///
    /// let election = locks.election("migration")?;
    /// let leading = election.lead(async |term: Term| {
    ///     println!("leading under token {}", term.fencing_token());
    ///     Ok::<(), Infallible>(()) // the work is done
    /// });
    /// assert_eq!(leading.until(std::future::pending()).await?, LeadEnd::Finished);
    /// # Ok(()) }
    /// ```
    pub fn lead<B, W, E>(&self, body: B) -> Lead<B>
    where
        B: FnMut(Term) -> W,
        W: Future<Output = Result<(), E>>,
        E: Display,
    {
        Lead { candidate: self.candidate.clone(), body }
    }

    /// Returns a receiver that watches this process's role.
    ///
    /// A follower asks the store for the leader when its campaign begins, and then three times per lease, so the role
    /// is accurate within one lease. While the thread that polls [`Lead::until`] is blocked, the value may be out of
    /// date; [`Role::is_leading`] also checks the clock.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let election = locks.election("outbox")?;
    /// let role = election.role();
    /// let is_ready = move || role.borrow().is_leading(); // for a probe or a gauge
    /// assert!(!is_ready());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn role(&self) -> watch::Receiver<Role> {
        self.candidate.role.subscribe()
    }

    /// Ends this process's current term, if it leads: the body ends as at shutdown, then the lock is released, and
    /// this process campaigns again after the [back-off](ElectionOptions::back_off).
    ///
    /// It does not wait; [`role`](Self::role) shows when the term has ended.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let election = locks.election("outbox")?;
    /// let role = election.role();
    /// election.resign(); // nothing happens, since it does not lead
    /// assert!(!role.borrow().is_leading());
    /// # Ok(()) }
    /// ```
    pub fn resign(&self) {
        self.candidate.resignation.notify_waiters();
    }
}

/// A candidate that is ready to campaign, with the body of its terms; returned by
/// [`Election::lead`].
#[must_use = "nothing happens before `until`"]
pub struct Lead<B> {
    candidate: Arc<Candidate>,
    body: B,
}

impl<B> Lead<B> {
    /// Campaigns and leads until a body returns `Ok`, or until `shutdown` completes.
    ///
    /// At shutdown the body ends first: it is dropped at its current await, or has the
    /// [grace](ElectionOptions::grace) period to end by itself. Then the lock is released, and the release is
    /// awaited for at most two operation timeouts. A shutdown during a campaign cancels the campaign.
    ///
    /// Store outages do not end the call. A candidate runs one call at a time: a second one waits until the first has
    /// ended.
    ///
    /// # Errors
    /// [`LockErrorKind::ShutDown`](crate::LockErrorKind::ShutDown) if the factory was shut down, or
    /// [`NoRuntime`](crate::LockErrorKind::NoRuntime).
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
                paused = candidate.pause(delay) => paused?,
            }
        }
    }
}

impl<B> fmt::Debug for Lead<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").field("name", self.candidate.lock.name()).finish_non_exhaustive()
    }
}
