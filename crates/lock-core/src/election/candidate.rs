//! A candidate: its campaigns and the observation of the leader, its terms, and its role.

use super::options::ElectionOptions;
use crate::{
    backend::Inspected,
    driver::Handle,
    error::{LockError, LockErrorKind},
    factory::LockFactory,
    guard::LockGuard,
    hold::Hold,
    ids::{FencingToken, LeaseId, ProcessId},
    lock::Lock,
    machine::LostReason,
    observer::{LockEventKind, Notable, TermEnd},
    sync::sleep,
    time::Moment,
};
use futures_util::FutureExt;
use std::{
    any::Any,
    convert::Infallible,
    fmt::Display,
    future::{Future, pending},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    time::Duration,
};
use tokio::{
    sync::{Mutex, MutexGuard, Notify, watch},
    task::unconstrained,
};

/// The role of this process in an election, as returned by [`Election::role`](super::Election::role).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Role {
    /// This process does not take part: no call of [`Lead::until`](super::Lead::until) is in progress.
    Idle,
    /// This process campaigns, or pauses before its next campaign.
    Following {
        /// The leader according to the last read of the store. `None` before the first reply, between two leaders, and
        /// while the store does not reply.
        leader: Option<Leader>,
    },
    /// This process leads.
    Leading(Term),
}

impl Role {
    /// Returns `true` if this process leads now. Checks the clock, as [`Hold::is_held`](crate::Hold::is_held) does,
    /// so the first call after a pause of this process is accurate.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        matches!(self, Self::Leading(term) if term.is_leading())
    }

    /// Returns the leader, if this process follows one.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Following { leader } => leader.as_ref(),
            Self::Idle | Self::Leading(_) => None,
        }
    }
}

/// The leader according to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The lease id of its term: `<process uuid>:<number>`.
    pub lease: String,
}

impl Leader {
    /// Returns the [process](crate::LockFactory::process_id) that leads; `None` if another program holds the lock.
    #[must_use]
    pub fn process(&self) -> Option<ProcessId> {
        LeaseId::parse(&self.lease).map(|lease| lease.process())
    }
}

/// A view of a term of leadership, for its body. It cannot end the term, and can outlive it.
#[derive(Debug, Clone)]
pub struct Term {
    hold: Hold,
    /// `true` once the body should end. The channel closes with the term.
    stop: watch::Receiver<bool>,
}

impl Term {
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

/// The reason why [`Lead::until`](super::Lead::until) returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeadEnd {
    /// A body returned `Ok` before the lock was lost.
    Finished,
    /// The shutdown began before a body returned `Ok`.
    Stopped,
}

/// The state that the clones of an election share.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) locks: LockFactory,
    pub(super) lock: Lock,
    pub(super) options: ElectionOptions,
    pub(super) role: watch::Sender<Role>,
    /// Asks the current term, and no later one, to end.
    pub(super) resignation: Notify,
    turn: Mutex<()>,
}

impl Candidate {
    pub(super) fn new(locks: LockFactory, lock: Lock, options: ElectionOptions) -> Result<Self, LockError> {
        options.check().map_err(|error| LockError::from(error).of(lock.name()))?;
        let lock = lock.with_options(options.lock)?;
        let role = watch::Sender::new(Role::Idle);
        Ok(Self { locks, lock, options, role, resignation: Notify::new(), turn: Mutex::default() })
    }

    /// Waits until this call of `until` has its turn. The role is idle again when the turn is dropped.
    pub(super) async fn turn(&self) -> Turn<'_> {
        let turn = self.turn.lock().await;
        self.role.send_replace(Role::Following { leader: None });
        Turn { role: &self.role, _turn: turn }
    }

    fn handle(&self) -> &Handle {
        self.locks.handle()
    }

    /// Campaigns until it is elected. After a store failure it pauses and tries again.
    ///
    /// # Errors
    /// `ShutDown` or `NoRuntime`, after which no later campaign can succeed.
    pub(super) async fn campaign(&self) -> Result<LockGuard, LockError> {
        loop {
            let error = match self.follow_while(self.lock.acquire()).await {
                Ok(guard) => return Ok(guard),
                Err(error) => error,
            };
            if matches!(
                error.kind(),
                LockErrorKind::ShutDown | LockErrorKind::NoRuntime | LockErrorKind::Forked
            ) {
                return Err(error);
            }
            self.handle().log(&Notable::CampaignFailed { name: self.lock.name(), error: &error });
            // The pause does not grow: an acquire has a back-off of its own, and fails only after the outage budget.
            self.pause(self.options.initial_delay).await?;
        }
    }

    /// Pauses for `delay` and up to a quarter more, but no longer than the maximum delay.
    pub(super) async fn pause(&self, delay: Duration) -> Result<(), LockError> {
        self.follow_while(self.sleep(self.with_jitter(delay))).await
    }

    /// Sleeps, under any executor.
    async fn sleep(&self, duration: Duration) -> Result<(), LockError> {
        self.handle().in_runtime(async { sleep(duration).await }).await
    }

    fn with_jitter(&self, delay: Duration) -> Duration {
        const STEPS: u32 = 1024;
        let step = u32::try_from(self.handle().jitter() % u64::from(STEPS)).unwrap_or(0);
        let jitter = delay / 4 / STEPS * step;
        delay.saturating_add(jitter).min(self.options.max_delay)
    }

    /// Runs `work` while keeping the role up to date.
    async fn follow_while<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            value = work => value,
            never = self.watch_leader() => match never {},
        }
    }

    async fn watch_leader(&self) -> Infallible {
        let every = self.options.lock.chosen_lease() / 3;
        loop {
            let seen = self.leader().await;
            self.role.send_if_modified(|role| {
                let changes = role.leader() != seen.as_ref();
                if changes {
                    *role = Role::Following { leader: seen };
                }
                changes
            });
            if self.sleep(every).await.is_err() {
                // The acquire fails with the same error.
                return pending().await;
            }
        }
    }

    async fn leader(&self) -> Option<Leader> {
        match self.locks.stored(self.lock.name()).await.map(|reply| reply.outcome) {
            Ok(Inspected::Held(stored)) => Some(Leader { lease: stored.lease }),
            Ok(Inspected::Free | Inspected::Pool(_)) => None,
            Err(error) => {
                tracing::debug!(lock.name = self.lock.name().as_str(), error = %format_args!("{error:#}"), "failed to look up the current leader");
                None
            }
        }
    }

    /// Serves the term of this guard. By the time the lock is released, the body has ended and the role has changed.
    pub(super) async fn serve<B, W, E>(
        &self,
        guard: LockGuard,
        body: &mut B,
        shutdown: Pin<&mut impl Future<Output = ()>>,
    ) -> Served
    where
        B: FnMut(Term) -> W,
        W: Future<Output = Result<(), E>>,
        E: Display,
    {
        // Created before the role changes, so that a resignation by a task that has seen the new role is not missed.
        let resigned = self.resignation.notified();
        let hold = guard.hold();
        let (tenure, term) = Tenure::begin(self, hold.clone());
        let work = async { body(term).await.map_err(|error| format!("{error:#}")) };
        let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
        let (ended, is_shutdown) = tokio::select! {
            biased;
            reason = hold.lost() => (Ended::from(TermEnd::Lost(reason)), false),
            () = shutdown => (tenure.wind_down(work.as_mut(), TermEnd::Stopped).await, true),
            () = resigned => (tenure.wind_down(work.as_mut(), TermEnd::Resigned).await, false),
            outcome = &mut work => (Ended::of(outcome, &hold), false),
        };
        // Dropping the body runs code of the application, which may panic.
        let dropped = catch_unwind(AssertUnwindSafe(move || drop(work)));
        let ended = dropped.map_or_else(Ended::panicked, |()| ended);
        let end = ended.end;
        let led = tenure.end(ended);
        // The result is reported by an event, and changes nothing here: the body has ended.
        let _ = guard.release().await;
        match end {
            _ if is_shutdown => Served::Last(LeadEnd::Stopped),
            TermEnd::Finished => Served::Last(LeadEnd::Finished),
            TermEnd::Lost(LostReason::ShutDown) => Served::FactoryShutDown,
            TermEnd::Failed | TermEnd::Panicked => Served::Failed(led),
            _ => Served::Ended,
        }
    }
}

/// The turn of one call of `until`: a candidate has one term at a time.
#[must_use]
pub(super) struct Turn<'a> {
    role: &'a watch::Sender<Role>,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.role.send_replace(Role::Idle);
    }
}

/// The next step after a term.
pub(super) enum Served {
    /// No further term follows.
    Last(LeadEnd),
    /// Its body failed or panicked after this time.
    Failed(Duration),
    /// It was lost, or this process resigned.
    Ended,
    FactoryShutDown,
}

/// The end of a term, with the text of its body's error or panic.
struct Ended {
    end: TermEnd,
    detail: String,
}

/// The result of a body. The error is text, formatted where a panic of its `Display` is caught.
type Outcome = Result<Result<(), String>, Box<dyn Any + Send>>;

/// The role of a leader. When it is dropped, this process follows.
struct Tenure<'a> {
    candidate: &'a Candidate,
    hold: Hold,
    since: Moment,
    /// Asks the body to end.
    stop: watch::Sender<bool>,
    ended: Ended,
}

impl<'a> Tenure<'a> {
    fn begin(candidate: &'a Candidate, hold: Hold) -> (Self, Term) {
        let (stop, asked) = watch::channel(false);
        let term = Term { hold: hold.clone(), stop: asked };
        candidate.role.send_replace(Role::Leading(term.clone()));
        let (name, token) = (hold.name(), hold.fencing_token());
        candidate.handle().observe(name, LockEventKind::TermStarted { token });
        let since = candidate.handle().clock.now();
        (Self { candidate, hold, since, stop, ended: Ended::from(TermEnd::Cancelled) }, term)
    }

    /// Asks the body to end, and waits for it for at most the grace.
    async fn wind_down(&self, work: Pin<&mut impl Future<Output = Outcome>>, end: TermEnd) -> Ended {
        self.stop.send_replace(true);
        let grace = self.candidate.options.grace;
        if grace.is_zero() {
            return Ended::from(end);
        }
        tokio::select! {
            biased;
            reason = self.hold.lost() => Ended::from(TermEnd::Lost(reason)),
            outcome = work => Ended { end, detail: Ended::of(outcome, &self.hold).detail },
            // Ends a body that uses up the cooperative budget in each poll, too.
            _ = unconstrained(self.candidate.sleep(grace)) => Ended::from(end),
        }
    }

    /// Ends the term, and returns its duration.
    fn end(mut self, ended: Ended) -> Duration {
        self.ended = ended;
        self.led()
    }

    fn led(&self) -> Duration {
        self.candidate.handle().clock.now().since(self.since)
    }
}

impl Drop for Tenure<'_> {
    fn drop(&mut self) {
        self.candidate.role.send_replace(Role::Following { leader: None });
        let (name, token, led) = (self.hold.name(), self.hold.fencing_token(), self.led());
        let Ended { end, detail } = &self.ended;
        let ended = LockEventKind::TermEnded { token, end: *end, detail, led };
        self.candidate.handle().observe(name, ended);
    }
}

impl Ended {
    fn of(outcome: Outcome, hold: &Hold) -> Self {
        match outcome {
            // The deadline passed while the body was polled for the last time: its end was not protected.
            Ok(Ok(())) => Self::from(hold.lost_reason().map_or(TermEnd::Finished, TermEnd::Lost)),
            Ok(Err(detail)) => Self { end: TermEnd::Failed, detail },
            Err(panic) => Self::panicked(panic),
        }
    }

    fn panicked(panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self { end: TermEnd::Panicked, detail: text.unwrap_or_default() }
    }
}

impl From<TermEnd> for Ended {
    fn from(end: TermEnd) -> Self {
        Self { end, detail: String::new() }
    }
}
