//! `tracing` events and spans, with data in fields: trace and debug for normal operation, info for terms of leadership
//! and for holds that a shutdown ends, warn for risks and failures, error for losses.
//!
//! A digest bounds the log of a factory. Of each kind of warning, the first few of a period are logged in full, with
//! the name of their lock. Further ones are logged at debug, and one line at the end of the period sums them up. An
//! outage of the store therefore does not write a line for each lock.

use super::event::{AcquireOutcome, LockEvent, LockEventKind, TermEnd};
use crate::{
    backend::BackendError,
    clock::Clock,
    error::LockError,
    ids::FencingToken,
    machine::{HoldEnd, LostReason},
    name::LockName,
    sync::{Mutex, lock, rank},
    time::Moment,
};
use std::{fmt, sync::Arc, time::Duration};
use tracing::{Span, field::Empty};

/// The time that one line sums up.
const PERIOD: Duration = Duration::from_secs(10);
/// The warnings of each kind that are logged in full in a period.
const IN_FULL: u64 = 5;

/// A log line that is no event for observers.
#[derive(Debug)]
pub(crate) enum Notable<'a> {
    /// The renewal of a hold began to fail.
    Suspect { name: &'a LockName, token: FencingToken, remaining: Duration, error: Option<&'a BackendError> },
    /// The renewal of a hold failed again.
    SuspectStill { error: Option<&'a BackendError> },
    /// An acquire without a limit has waited for longer than two leases for another process.
    LongWait { name: &'a LockName, waited: Duration },
    /// A campaign of an election failed.
    CampaignFailed { name: &'a LockName, error: &'a LockError },
}

/// Logs at this level, or at debug if the digest says so. The result is the time at which to sum up, if that is new.
macro_rules! bounded {
    ($digest:expr, $warning:ident, $reason:expr, $level:ident, $($line:tt)*) => {
        match $digest.admit(Warning::$warning, || $reason) {
            Admission::InFull => {
                tracing::$level!($($line)*);
                None
            }
            Admission::AtDebug(sum_up_at) => {
                tracing::debug!($($line)*);
                sum_up_at
            }
        }
    };
}

fn text_of(error: Option<&BackendError>) -> String {
    error.map_or_else(|| "the store did not reply".to_owned(), ToString::to_string)
}

/// Logs a line that is no event for observers.
pub(super) fn notable(notable: &Notable<'_>, digest: &Digest) -> Option<Moment> {
    match *notable {
        Notable::Suspect { name, token, remaining, error } => bounded!(
            digest,
            Suspect,
            text_of(error),
            warn,
            lock.name = name.as_str(),
            lock.token = token.get(),
            remaining = remaining.as_secs_f64(),
            error = error.map(tracing::field::display),
            "renewal failed, retrying until the deadline"
        ),
        Notable::SuspectStill { error } => digest.repeat(Warning::Suspect, || text_of(error)),
        Notable::LongWait { name, waited } => bounded!(
            digest,
            LongWait,
            name.to_string(),
            warn,
            lock.name = name.as_str(),
            waited = waited.as_secs_f64(),
            "an acquire without a limit has waited longer than two leases for another process: `inspect` shows the \
             holder; if tasks take several locks in different orders, acquire them with `locks.all([…])`"
        ),
        Notable::CampaignFailed { name, error } => bounded!(
            digest,
            CampaignFailed,
            format!("{error:#}"),
            warn,
            lock.name = name.as_str(),
            error = %format_args!("{error:#}"),
            "campaign failed, retrying"
        ),
    }
}

/// Logs how many warnings were logged at debug. `suspect` is the number of holds whose renewals fail now, and may have
/// begun to fail in an earlier period.
pub(crate) fn sum_up(sum: &Sum, suspect: u64) {
    let Sum { warning, count, first, ref reason } = *sum;
    match warning {
        Warning::Suspect => tracing::warn!(
            holds = first.max(suspect),
            attempts = count,
            error = reason,
            "further renewals failed, each logged at debug"
        ),
        Warning::Lost => {
            tracing::error!(count, lock.reason = reason, "further holds lost, each logged at debug");
        }
        Warning::Unclaimed => {
            tracing::warn!(count, "further holds ended: their acquire futures were not polled");
        }
        Warning::Unconfirmed => {
            tracing::warn!(count, "store did not confirm further releases, each logged at debug");
        }
        Warning::AlreadyEnded => {
            tracing::warn!(
                count,
                "further guards released whose holds had already ended, each logged at debug"
            );
        }
        Warning::SelfDeadlock => {
            tracing::warn!(
                count,
                "further tasks wait for locks that their own process holds, each logged at debug"
            );
        }
        Warning::LongWait => {
            tracing::warn!(
                count,
                lock.name = reason,
                "further acquires without a limit wait, each logged at debug"
            );
        }
        Warning::TermEnded => {
            tracing::warn!(
                count,
                lock.outcome = reason,
                "further terms of leadership ended, each logged at debug"
            );
        }
        Warning::CampaignFailed => {
            tracing::warn!(count, error = reason, "further campaigns failed, each logged at debug");
        }
    }
}

/// Logs an event.
pub(super) fn event(event: &LockEvent<'_>, digest: &Digest) -> Option<Moment> {
    let (name, backend) = (event.name.as_str(), event.backend);
    match event.kind {
        LockEventKind::Ended { token, lease, end: HoldEnd::Lost(LostReason::Unclaimed), held, .. } => {
            return bounded!(digest, Unclaimed, String::new(), warn,
                lock.name = name, lock.token = token.get(), lock.lease_id = %lease, held = held.as_secs_f64(),
                "hold ended: the acquire future was not polled");
        }
        LockEventKind::Ended { token, lease, end: HoldEnd::Lost(reason), held, .. }
            if reason != LostReason::ShutDown =>
        {
            return bounded!(digest, Lost, format!("{reason:?}"), error,
                lock.name = name, lock.token = token.get(), lock.lease_id = %lease, lock.reason = ?reason,
                held = held.as_secs_f64(), "hold lost");
        }
        // The lock may still have been held when it was released.
        LockEventKind::GuardReleased { outcome: None, kind, .. } => {
            return bounded!(
                digest,
                Unconfirmed,
                String::new(),
                warn,
                lock.name = name,
                kind = kind.as_str(),
                "store did not confirm the release"
            );
        }
        LockEventKind::GuardReleased { outcome: Some(outcome), kind, .. } if !outcome.was_held() => {
            return bounded!(digest, AlreadyEnded, String::new(), warn,
                lock.name = name, lock.outcome = ?outcome, kind = kind.as_str(),
                "guard released, but its hold had already ended");
        }
        LockEventKind::SelfDeadlock { token, waited, .. } => {
            return bounded!(
                digest,
                SelfDeadlock,
                String::new(),
                warn,
                lock.name = name,
                lock.token = token.get(),
                waited = waited.as_secs_f64(),
                "a task has waited longer than a lease for a lock that its own process holds: if it is waiting for its \
                 own guard, acquire the lock with the hold's owner; if tasks take several locks in different orders, \
                 acquire them with `locks.all([…])`"
            );
        }
        LockEventKind::TermEnded { token, end, detail, led, .. }
            if matches!(end, TermEnd::Failed | TermEnd::Panicked | TermEnd::Lost(_)) =>
        {
            return bounded!(digest, TermEnded, format!("{end:?}"), warn,
                lock.name = name, lock.token = token.get(), lock.outcome = ?end, detail, led = led.as_secs_f64(),
                "leadership ended");
        }
        LockEventKind::WaitStarted => {
            tracing::trace!(lock.name = name, lock.backend = backend, "acquiring lock")
        }
        LockEventKind::WaitEnded { outcome, waited, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, waited = waited.as_secs_f64(), "acquire finished");
        }
        LockEventKind::Granted { token, lease, source, .. } => {
            tracing::debug!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, source = ?source, "lock acquired");
        }
        LockEventKind::Ended { token, lease, end: HoldEnd::Released, held, .. } => {
            tracing::debug!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, held = held.as_secs_f64(), "hold released");
        }
        LockEventKind::Ended { token, lease, end: HoldEnd::Lost(_), held, .. } => tracing::info!(
            lock.name = name, lock.token = token.get(), lock.lease_id = %lease,
            held = held.as_secs_f64(), "hold ended by shutdown"
        ),
        LockEventKind::GuardReleased { outcome: Some(outcome), kind, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, kind = kind.as_str(), "guard released");
        }
        LockEventKind::Renewal { outcome, took, remaining, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, took = took.as_secs_f64(), remaining = remaining.as_secs_f64(), "renewal ended"
            )
        }
        LockEventKind::RenewalFailed { token, remaining, error, .. } => tracing::debug!(
            lock.name = name,
            lock.token = token.get(),
            remaining = remaining.as_secs_f64(),
            error = error.map(tracing::field::display),
            "renewal attempt failed"
        ),
        LockEventKind::Voted { votes, .. } => {
            tracing::debug!(lock.name = name, lock.votes = %votes, "quorum voted")
        }
        LockEventKind::WakeUp { source, .. } => {
            tracing::trace!(lock.name = name, source = source.as_str(), "waking waiters")
        }
        LockEventKind::TermStarted { token, .. } => {
            tracing::info!(lock.name = name, lock.token = token.get(), "leadership acquired");
        }
        LockEventKind::TermEnded { token, end, detail, led, .. } => tracing::info!(
            lock.name = name, lock.token = token.get(), lock.outcome = ?end, detail, led = led.as_secs_f64(), "leadership ended"
        ),
    }
    None
}

/// A kind of warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warning {
    /// The first failed renewal of a hold.
    Suspect,
    Lost,
    Unclaimed,
    Unconfirmed,
    AlreadyEnded,
    SelfDeadlock,
    LongWait,
    TermEnded,
    CampaignFailed,
}

impl Warning {
    const ALL: [Self; 9] = [
        Self::Suspect,
        Self::Lost,
        Self::Unclaimed,
        Self::Unconfirmed,
        Self::AlreadyEnded,
        Self::SelfDeadlock,
        Self::LongWait,
        Self::TermEnded,
        Self::CampaignFailed,
    ];
}

/// The level of one warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The level of its kind.
    InFull,
    /// Debug. The first one of a period says when the period ends.
    AtDebug(Option<Moment>),
}

/// The warnings of a period that were logged at debug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) warning: Warning,
    pub(crate) count: u64,
    /// The number of all warnings of the period, without repetitions.
    pub(crate) first: u64,
    /// The reason of the latest one.
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(super) struct Digest {
    clock: Arc<dyn Clock>,
    periods: Mutex<rank::Digest, [Period; Warning::ALL.len()]>,
}

#[derive(Debug)]
struct Period {
    ends_at: Moment,
    /// All but repetitions.
    first: u64,
    at_debug: u64,
    reason: String,
}

impl Default for Period {
    fn default() -> Self {
        Self { ends_at: Moment::START, first: 0, at_debug: 0, reason: String::new() }
    }
}

impl Digest {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, periods: Mutex::default() }
    }

    /// Counts a warning, and returns the level at which to log it.
    pub(super) fn admit(&self, warning: Warning, reason: impl FnOnce() -> String) -> Admission {
        let now = self.clock.now();
        let mut periods = lock(&self.periods);
        let period = periods[warning as usize].at(now);
        period.first += 1;
        if period.first <= IN_FULL {
            return Admission::InFull;
        }
        Admission::AtDebug(period.add(reason()))
    }

    /// Counts a repetition of a warning, which is always logged at debug.
    pub(super) fn repeat(&self, warning: Warning, reason: impl FnOnce() -> String) -> Option<Moment> {
        let now = self.clock.now();
        lock(&self.periods)[warning as usize].at(now).add(reason())
    }

    /// Returns the time of the next line that sums up.
    pub(super) fn next(&self) -> Option<Moment> {
        lock(&self.periods).iter().filter(|period| period.at_debug > 0).map(|period| period.ends_at).min()
    }

    /// Returns the warnings to sum up at `now`.
    pub(super) fn take_due(&self, now: Moment) -> Vec<Sum> {
        let mut periods = lock(&self.periods);
        let due = Warning::ALL.into_iter().filter_map(|warning| {
            let period = &mut periods[warning as usize];
            (period.at_debug > 0 && period.ends_at <= now).then(|| {
                let Period { first, at_debug: count, reason, .. } = std::mem::take(period);
                Sum { warning, count, first, reason }
            })
        });
        due.collect()
    }
}

impl Period {
    /// Returns the period at `now`: this one, until its end and until it was summed up, and then a new one.
    fn at(&mut self, now: Moment) -> &mut Self {
        if self.ends_at <= now && self.at_debug == 0 {
            *self = Self { ends_at: now + PERIOD, ..Self::default() };
        }
        self
    }

    /// Returns the end of the period, if this is the first warning at debug.
    fn add(&mut self, reason: String) -> Option<Moment> {
        self.at_debug += 1;
        self.reason = reason;
        (self.at_debug == 1).then_some(self.ends_at)
    }
}

/// The span of an acquire. Its outcome is "cancelled" if it is dropped before [`end`](Self::end).
///
/// If the span is disabled, this is empty: nothing is allocated, and the clock is not read.
#[derive(Debug, Default)]
pub(crate) struct AcquireSpan(Option<Box<Open>>);

struct Open {
    span: Span,
    clock: Arc<dyn Clock>,
    began: Moment,
}

impl AcquireSpan {
    /// Opens the span as a child of the current one.
    pub(crate) fn open(name: &LockName, backend: &'static str, clock: &Arc<dyn Clock>) -> Self {
        let span = tracing::debug_span!(
            "lock.acquire",
            lock.name = name.as_str(),
            lock.backend = backend,
            lock.outcome = Empty,
            lock.waited = Empty,
            lock.token = Empty,
        );
        if span.is_disabled() {
            return Self::default();
        }
        Self(Some(Box::new(Open { span, clock: clock.clone(), began: clock.now() })))
    }

    /// Runs `poll` inside the span.
    pub(crate) fn in_scope<T>(&self, poll: impl FnOnce() -> T) -> T {
        let _entered = self.0.as_ref().map(|open| open.span.enter());
        poll()
    }

    /// Records the fencing token of a grant.
    pub(crate) fn record_token(&self, token: FencingToken) {
        if let Some(open) = &self.0 {
            open.span.record("lock.token", token.get());
        }
    }

    /// Records the outcome and the elapsed time, and closes the span.
    pub(crate) fn end(&mut self, outcome: AcquireOutcome) {
        if let Some(Open { span, clock, began }) = self.0.take().as_deref() {
            let waited = clock.now().since(*began).as_secs_f64();
            span.record("lock.outcome", outcome.as_str()).record("lock.waited", waited);
        }
    }
}

impl Drop for AcquireSpan {
    fn drop(&mut self) {
        self.end(AcquireOutcome::Cancelled);
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AcquireSpan").field(&self.span).finish()
    }
}
