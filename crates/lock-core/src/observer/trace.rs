//! `tracing` events, with data in fields: trace and debug for normal operation, info for terms of leadership and for
//! holds that a shutdown ends, warn for risks and failures, error for losses. A [digest](super::digest) bounds the
//! number of warnings and errors.

use super::{
    digest::{Admission, Digest, Sum, Warning},
    event::LockEvent,
    outcome::TermEnd,
};
use crate::{
    backend::BackendError,
    error::LockError,
    machine::{HoldEnd, LostReason, Unconfirmed},
    name::LockName,
    time::Moment,
    token::FencingToken,
};
use std::time::Duration;

fn seconds(d: Duration) -> f64 {
    d.as_secs_f64()
}

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
            remaining = seconds(remaining),
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
            waited = seconds(waited),
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
    let name = event.name().as_str();
    match *event {
        LockEvent::Ended { token, lease, end: HoldEnd::Lost(LostReason::Unclaimed), held, .. } => {
            return bounded!(digest, Unclaimed, String::new(), warn,
                lock.name = name, lock.token = token.get(), lock.lease_id = %lease, held = seconds(held),
                "hold ended: the acquire future was not polled");
        }
        LockEvent::Ended { token, lease, end: HoldEnd::Lost(reason), held, .. }
            if reason != LostReason::ShutDown =>
        {
            return bounded!(digest, Lost, format!("{reason:?}"), error,
                lock.name = name, lock.token = token.get(), lock.lease_id = %lease, lock.reason = ?reason,
                held = seconds(held), "hold lost");
        }
        // The lock may still have been held when it was released.
        LockEvent::GuardReleased { result: Err(Unconfirmed), kind, .. } => {
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
        LockEvent::GuardReleased { result: Ok(outcome), kind, .. } if !outcome.was_held() => {
            return bounded!(digest, AlreadyEnded, String::new(), warn,
                lock.name = name, lock.outcome = ?outcome, kind = kind.as_str(),
                "guard released, but its hold had already ended");
        }
        LockEvent::SelfDeadlock { token, waited, .. } => {
            return bounded!(
                digest,
                SelfDeadlock,
                String::new(),
                warn,
                lock.name = name,
                lock.token = token.get(),
                waited = seconds(waited),
                "a task has waited longer than a lease for a lock that its own process holds: if it is waiting for its \
                 own guard, acquire the lock with the hold's owner; if tasks take several locks in different orders, \
                 acquire them with `locks.all([…])`"
            );
        }
        LockEvent::TermEnded { token, end, detail, led, .. }
            if matches!(end, TermEnd::Failed | TermEnd::Panicked | TermEnd::Lost(_)) =>
        {
            return bounded!(digest, TermEnded, format!("{end:?}"), warn,
                lock.name = name, lock.token = token.get(), lock.outcome = ?end, detail, led = seconds(led),
                "leadership ended");
        }
        LockEvent::WaitStarted { backend, .. } => {
            tracing::trace!(lock.name = name, lock.backend = backend, "acquiring lock")
        }
        LockEvent::WaitEnded { outcome, waited, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, waited = seconds(waited), "acquire finished");
        }
        LockEvent::Granted { token, lease, source, .. } => {
            tracing::debug!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, source = ?source, "lock acquired");
        }
        LockEvent::Ended { token, lease, end: HoldEnd::Released, held, .. } => {
            tracing::debug!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, held = seconds(held), "hold released");
        }
        LockEvent::Ended { token, lease, end: HoldEnd::Lost(_), held, .. } => tracing::info!(
            lock.name = name, lock.token = token.get(), lock.lease_id = %lease,
            held = seconds(held), "hold ended by shutdown"
        ),
        LockEvent::GuardReleased { result, kind, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?result, kind = kind.as_str(), "guard released");
        }
        LockEvent::Renewal { outcome, took, remaining, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, took = seconds(took), remaining = seconds(remaining), "renewal ended"
            )
        }
        LockEvent::RenewalFailed { token, remaining, error, .. } => tracing::debug!(
            lock.name = name,
            lock.token = token.get(),
            remaining = seconds(remaining),
            error = error.map(tracing::field::display),
            "renewal attempt failed"
        ),
        LockEvent::Voted { votes, .. } => {
            tracing::debug!(lock.name = name, lock.votes = %votes, "quorum voted")
        }
        LockEvent::WakeUp { source, .. } => {
            tracing::trace!(lock.name = name, source = source.as_str(), "waking waiters")
        }
        LockEvent::TermStarted { token, .. } => {
            tracing::info!(lock.name = name, lock.token = token.get(), "leadership acquired");
        }
        LockEvent::TermEnded { token, end, detail, led, .. } => tracing::info!(
            lock.name = name, lock.token = token.get(), lock.outcome = ?end, detail, led = seconds(led), "leadership ended"
        ),
    }
    None
}
