//! The futures of an acquire: named, `'static` and `Send`, so that other futures can hold them; and what they ask for.

use crate::{
    backend::Applied,
    driver::{AcquireResult, Handle, HoldState, PendingAcquire},
    error::{LockError, LockErrorKind},
    guard::LockGuard,
    ids::ProcessId,
    machine::{Entry, Join, MAX_OPEN_UNDOS, Refusal, WaitPolicy},
    name::LockName,
    observer::{AcquireOutcome, AcquireSpan},
    options::{LockOptions, OptionsError, Terms},
    owner::Owner,
    time::Moment,
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// The name of a lock, its owner, and its terms.
#[derive(Debug, Clone)]
pub(crate) struct LockSpec {
    pub(crate) name: LockName,
    /// The owner, if the caller named one.
    pub(crate) owner: Option<Owner>,
    pub(crate) terms: Terms,
}

impl LockSpec {
    /// Returns the owner that the caller named, or the ambient one. Read at the first poll, so that
    /// `scope(lock.acquire())` works like `scope(async { lock.acquire().await })`.
    pub(crate) fn given_owner(&self, process: ProcessId) -> Option<Owner> {
        // Each permit has its own owner, since permits are not re-entered.
        if self.terms.share.is_some() {
            return None;
        }
        self.owner.or_else(|| Owner::ambient(process))
    }
}

/// The time an acquire waits, counted from its first poll.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Once,
    For(Duration),
    /// Until a deadline that is shared with the other locks of a set.
    Until(Moment),
    Forever,
}

/// A future that waits for a lock, returned by [`Lock::acquire`](crate::Lock::acquire),
/// [`Lock::acquire_timeout`](crate::Lock::acquire_timeout) and [`LockGuard::reenter`].
///
/// The wait begins at the first poll. Waiters of one process are served in the order of their first poll.
///
/// # Cancel safety
/// Dropping the future at any point gives up its place in the queue and undoes anything that the store may have
/// granted; waiters behind it are not affected. Polling uses tokio's cooperative budget, so a loop of acquires lets
/// other tasks run.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct AcquireFuture {
    handle: Arc<Handle>,
    spec: LockSpec,
    wait: Wait,
    /// Set at the first poll.
    wait_policy: Option<WaitPolicy>,
    join: Option<Join>,
    pending: Option<PendingAcquire>,
    /// Opened at the first poll. Dropped last, so that it covers the work of a cancellation.
    span: Option<AcquireSpan>,
    done: bool,
}

impl AcquireFuture {
    pub(crate) fn new(handle: Arc<Handle>, spec: LockSpec, wait: Wait) -> Self {
        Self { handle, spec, wait, wait_policy: None, join: None, pending: None, span: None, done: false }
    }

    /// Enters the queue for the name.
    fn enter(&mut self) -> Result<PendingAcquire, LockError> {
        let shared = &**self.handle;
        let LockSpec { name, terms, .. } = &self.spec;
        let named = self.spec.given_owner(shared.process);
        let owner = named.map_or_else(|| shared.fresh_owner(), |owner| owner.id());
        let entered = shared.clock.now();
        let wait_policy = *self.wait_policy.get_or_insert_with(|| match self.wait {
            Wait::For(Duration::ZERO) | Wait::Once => WaitPolicy::NoWait,
            Wait::For(wait) => WaitPolicy::Deadline(entered + wait),
            Wait::Until(deadline) => WaitPolicy::Deadline(deadline),
            Wait::Forever => WaitPolicy::Unbounded,
        });
        let (owned, terms, join) = (named.is_some(), terms.clone(), self.join);
        PendingAcquire::enter(&self.handle, name, entered, |waiter| Entry {
            waiter,
            owner,
            owned,
            terms,
            wait_policy,
            join,
        })
    }

    /// Resolves to `Ok(None)` if this is a single attempt and the lock is held or has waiters.
    pub(crate) fn poll_guard(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<LockGuard>, LockError>> {
        assert!(!self.done, "`AcquireFuture` polled after completion");
        let coop = ready!(tokio::task::coop::poll_proceed(cx));
        let mut span = self.span.take().unwrap_or_else(|| self.open_span());
        let Poll::Ready(result) = span.in_scope(|| self.poll_result(cx)) else {
            self.span = Some(span);
            return Poll::Pending;
        };
        coop.made_progress();
        self.done = true;
        span.end(match &result {
            Ok(Some(guard)) => {
                span.record_token(guard.fencing_token());
                AcquireOutcome::Acquired
            }
            Ok(None) => AcquireOutcome::Contended,
            Err(error) if error.kind() == LockErrorKind::Timeout => AcquireOutcome::Timeout,
            Err(_) => AcquireOutcome::Error,
        });
        Poll::Ready(result)
    }

    fn open_span(&self) -> AcquireSpan {
        AcquireSpan::open(&self.spec.name, self.handle.observers().backend(), &self.handle.clock)
    }

    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<LockGuard>, LockError>> {
        let result = loop {
            match ready!(self.poll_pending(cx)) {
                // Granted, but lost before this task ran: the guard would be useless.
                Ok(AcquireResult::Granted(hold)) if hold.ended().is_some() => {
                    drop(self.guard(hold));
                    if self.join.is_some() {
                        break Ok(AcquireResult::Refused(Refusal::Lost, None));
                    }
                }
                result => break result,
            }
        };
        Poll::Ready(match result {
            Ok(AcquireResult::Granted(hold)) => Ok(self.guard(hold)),
            Ok(AcquireResult::Refused(Refusal::Busy, _)) => Ok(None),
            Ok(AcquireResult::Refused(refusal, error)) => Err(self.error(refusal, error)),
            Err(error) => Err(error),
        })
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<Result<AcquireResult, LockError>> {
        if self.pending.is_none() {
            let entered = match self.check() {
                Ok(()) => self.enter(),
                Err(error) => Err(error),
            };
            match entered {
                Ok(pending) => self.pending = Some(pending),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        match &mut self.pending {
            Some(pending) => pending.poll_result(cx),
            None => Poll::Pending,
        }
    }

    /// Creates the guard for a grant and ends the wait.
    fn guard(&mut self, hold: Arc<HoldState>) -> Option<LockGuard> {
        let pending = self.pending.take()?;
        Some(LockGuard::new(hold, pending.entry().clone(), self.spec.terms.clone(), self.handle.clone()))
    }

    fn check(&self) -> Result<(), LockError> {
        let name = &self.spec.name;
        if let Wait::For(wait) = self.wait {
            self.handle.limits.check_wait(wait).map_err(|error| LockError::from(error).of(name))?;
        }
        self.handle.check_name(name).map_err(|error| LockError::from(error).of(name))
    }

    fn error(&self, refusal: Refusal, error: Option<Arc<crate::backend::BackendError>>) -> LockError {
        let limits = &self.handle.limits;
        let error = match refusal {
            Refusal::Busy => LockError::new(LockErrorKind::Timeout),
            Refusal::Timeout(applied) => LockError::new(LockErrorKind::Timeout).applied(applied),
            Refusal::TooManyWaiters => LockError::new(LockErrorKind::TooManyWaiters)
                .detail(format!("this name already has {} waiters", limits.waiters_per_name)),
            Refusal::Outage => LockError::backend(LockErrorKind::Unavailable, error),
            Refusal::Unanswered => {
                LockError::backend(LockErrorKind::Unavailable, error).applied(Applied::Unknown)
            }
            Refusal::Failed(applied) => {
                let kind = error.as_ref().map_or(LockErrorKind::Unavailable, |error| LockErrorKind::of(error));
                LockError::backend(kind, error).applied(applied)
            }
            Refusal::TooManyUndos => LockError::new(LockErrorKind::Unavailable).detail(format!(
                "{MAX_OPEN_UNDOS} earlier attempts whose outcome is unknown are still being undone; try again when \
                 the store responds"
            )),
            Refusal::NoRandom => LockError::new(LockErrorKind::Unavailable).detail(
                "the operating system has no random number for the lease id: allow the system call `getrandom`",
            ),
            Refusal::Lost => LockError::new(LockErrorKind::Lost),
            Refusal::BelowFloor(token) => LockError::from(OptionsError::new(format!(
                "a re-entry keeps the hold's token, {token}, which does not exceed the `token_floor`: lower the floor, or \
                 release the lock first"
            ))),
            Refusal::ShutDown => LockError::new(LockErrorKind::ShutDown),
        };
        error.of(&self.spec.name)
    }
}

impl LockGuard {
    /// Acquires the lock again for the same owner. The new guard joins this hold: it shares the fencing token and the
    /// watchdog, and must be released as well. A longer lease extends the hold and a shorter one does not shorten
    /// it. A fixed lease of the same length keeps its original end.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::ReleaseOutcome;
    ///
    /// let outer = locks.named("stock:42")?.acquire().await?;
    /// let inner = outer.reenter().await?;
    /// assert_eq!(inner.fencing_token(), outer.fencing_token());
    /// assert_eq!(inner.release().await?, ReleaseOutcome::StillHeld { depth: 1 });
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::Lost`] if this hold has ended; otherwise as [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future leaves the depth unchanged.
    pub fn reenter(&self) -> AcquireFuture {
        self.join(self.terms.clone(), Join::Reenter(self.hold.id()))
    }

    /// Extends a [fixed lease](crate::LockOptions::fixed_lease) so that it lasts for at least `lease` (in whole
    /// milliseconds) from now. A lease that already lasts longer is not shortened, and `max_hold` still ends the hold.
    /// A lease that the watchdog renews needs no extension.
    ///
    /// This is a re-entry whose guard is dropped immediately, and observers see it as one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockFactory, MemoryBackend};
    /// use std::time::Duration;
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.named("import")?.with_fixed_lease(Duration::from_secs(60))?.acquire().await?;
    /// // … the first part is done, and the second may take two minutes …
    /// guard.extend(Duration::from_secs(120)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(60));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::Lost`] if this hold has ended; [`LockErrorKind::InvalidOptions`] if `lease` is shorter than
    /// [`LockOptions::MIN_LEASE`](crate::LockOptions::MIN_LEASE), not longer than the hold's margin plus an
    /// operation timeout, or longer than the factory allows; otherwise as [`Lock::acquire`](crate::Lock::acquire).
    /// After an error the lease may have been extended.
    ///
    /// # Cancel safety
    /// Cancel safe: if the future is dropped, the lease may or may not be extended, and the hold continues.
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let options = LockOptions::extension(&self.terms, lease);
        let terms = self.handle.terms(&options).map_err(|error| LockError::from(error).of(self.name()))?;
        self.join(terms, Join::Extend(self.hold.id())).await.map(drop)
    }

    fn join(&self, terms: Terms, join: Join) -> AcquireFuture {
        let spec = LockSpec { name: self.name().clone(), owner: Some(*self.owner()), terms };
        AcquireFuture { join: Some(join), ..AcquireFuture::new(self.handle.clone(), spec, Wait::Forever) }
    }
}

impl Future for AcquireFuture {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let guard = ready!(self.poll_guard(cx));
        Poll::Ready(
            guard.and_then(|guard| guard.ok_or_else(|| self.error(Refusal::Timeout(Applied::No), None))),
        )
    }
}

/// A future that tries once to acquire a lock, returned by [`Lock::try_acquire`](crate::Lock::try_acquire).
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct TryAcquireFuture(pub(crate) AcquireFuture);

impl Future for TryAcquireFuture {
    type Output = Result<Option<LockGuard>, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_guard(cx)
    }
}
