//! `tracing` events, with data in fields: trace and debug for normal operation, info for terms of leadership and for
//! holds that a shutdown ends, warn for risks and failures, error for losses.

use super::{event::LockEvent, outcome::TermEnd};
use crate::machine::{HoldEnd, LostReason, Unconfirmed};
use std::time::Duration;

fn seconds(d: Duration) -> f64 {
    d.as_secs_f64()
}

/// Logs an event.
pub(super) fn event(event: &LockEvent<'_>) {
    let name = event.name().as_str();
    match *event {
        LockEvent::WaitStarted { backend, .. } => {
            tracing::trace!(lock.name = name, lock.backend = backend, "acquiring lock")
        }
        LockEvent::WaitEnded { outcome, waited, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, waited = seconds(waited), "acquire finished");
        }
        LockEvent::Granted { token, lease, source, .. } => {
            tracing::debug!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, source = ?source, "lock acquired");
        }
        LockEvent::Ended { token, lease, end, held, .. } => match end {
            HoldEnd::Released => {
                tracing::debug!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, held = seconds(held), "hold released"
                )
            }
            HoldEnd::Lost(LostReason::ShutDown) => tracing::info!(
                lock.name = name, lock.token = token.get(), lock.lease_id = %lease,
                held = seconds(held), "hold ended by shutdown"
            ),
            HoldEnd::Lost(LostReason::Unclaimed) => tracing::warn!(
                lock.name = name, lock.token = token.get(), lock.lease_id = %lease,
                held = seconds(held), "hold ended: the acquire future was not polled"
            ),
            HoldEnd::Lost(reason) => {
                tracing::error!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, lock.reason = ?reason,
                    held = seconds(held), "hold lost"
                )
            }
        },
        LockEvent::GuardReleased { result, kind, .. } => match result {
            // The lock may still have been held when it was released.
            Err(Unconfirmed) => {
                tracing::warn!(lock.name = name, kind = kind.as_str(), "store did not confirm the release");
            }
            Ok(outcome) if !outcome.was_held() => {
                tracing::warn!(lock.name = name, lock.outcome = ?outcome, kind = kind.as_str(), "guard released, but its hold had already ended");
            }
            Ok(outcome) => {
                tracing::debug!(lock.name = name, lock.outcome = ?outcome, kind = kind.as_str(), "guard released");
            }
        },
        LockEvent::Renewal { outcome, took, remaining, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, took = seconds(took), remaining = seconds(remaining), "renewal ended"
            )
        }
        LockEvent::RenewalFailed { token, remaining, error, .. } => tracing::warn!(
            lock.name = name,
            lock.token = token.get(),
            remaining = seconds(remaining),
            error = error.map(tracing::field::display),
            "renewal failed, retrying until the deadline"
        ),
        LockEvent::Voted { votes, .. } => {
            tracing::debug!(lock.name = name, lock.votes = %votes, "quorum voted")
        }
        LockEvent::WakeUp { source, .. } => {
            tracing::trace!(lock.name = name, source = source.as_str(), "waking waiters")
        }
        LockEvent::SelfDeadlock { token, waited, .. } => tracing::warn!(
            lock.name = name,
            lock.token = token.get(),
            waited = seconds(waited),
            "a task has waited longer than a lease for a lock that its own process holds: if it is waiting for its \
             own guard, acquire the lock with the hold's owner"
        ),
        LockEvent::TermStarted { token, .. } => {
            tracing::info!(lock.name = name, lock.token = token.get(), "leadership acquired");
        }
        LockEvent::TermEnded { token, end, detail, led, .. } => match end {
            TermEnd::Failed | TermEnd::Panicked | TermEnd::Lost(_) => tracing::warn!(
                lock.name = name, lock.token = token.get(), lock.outcome = ?end, detail, led = seconds(led), "leadership ended"
            ),
            TermEnd::Finished | TermEnd::Resigned | TermEnd::Stopped | TermEnd::Cancelled => tracing::info!(
                lock.name = name, lock.token = token.get(), lock.outcome = ?end, detail, led = seconds(led), "leadership ended"
            ),
        },
    }
}
