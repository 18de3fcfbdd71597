//! One term: the body runs, something ends it, the lock is released.

use super::{candidate::Candidate, role::Role, term::Term};
use crate::{
    guard::LockGuard,
    hold::Hold,
    machine::LostReason,
    observer::{LockEvent, TermEnd},
    sync::timeout,
    time::Moment,
};
use futures_util::FutureExt;
use std::{
    any::Any,
    fmt::Display,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    time::Duration,
};
use tokio::sync::watch;

/// The reason why [`Lead::until`](super::Lead::until) returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeadEnd {
    /// A body returned `Ok` before the lock was lost.
    Finished,
    /// The shutdown began before a body returned `Ok`.
    Stopped,
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

impl Candidate {
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

/// The role of a leader. When it is dropped, this process follows.
struct Tenure<'a> {
    candidate: &'a Candidate,
    hold: Hold,
    since: Moment,
    stop: watch::Sender<bool>,
    ended: Ended,
}

impl<'a> Tenure<'a> {
    fn begin(candidate: &'a Candidate, hold: Hold) -> (Self, Term) {
        let (term, stop) = Term::new(hold.clone());
        candidate.role.send_replace(Role::Leading(term.clone()));
        let (name, token) = (hold.name(), hold.fencing_token());
        candidate.handle().observe(|backend| LockEvent::TermStarted { backend, name, token });
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
            outcome = timeout(grace, work) => {
                let detail = outcome.map(|outcome| Ended::of(outcome, &self.hold).detail);
                Ended { end, detail: detail.unwrap_or_default() }
            }
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
        let ended = |backend| LockEvent::TermEnded { backend, name, token, end: *end, detail, led };
        self.candidate.handle().observe(ended);
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
