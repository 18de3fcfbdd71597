//! `tracing` events: fields, not prose. Debug for the ordinary, warn for what endangers a hold, error for loss.

use super::{LockEvent, ReleaseKind};
use crate::machine::{HoldEnd, LostReason, ReleaseOutcome, Unconfirmed};
use std::time::Duration;

fn seconds(d: Duration) -> f64 {
    d.as_secs_f64()
}

pub(super) fn event(backend: &'static str, event: &LockEvent<'_>) {
    let name = event.name().as_str();
    match *event {
        LockEvent::WaitStarted { .. } => {
            tracing::trace!(lock.name = name, lock.backend = backend, "waiting")
        }
        LockEvent::WaitEnded { outcome, waited, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, waited = seconds(waited), "acquire ended");
        }
        LockEvent::Granted { token, lease, by, .. } => {
            tracing::debug!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, by = ?by, "acquired");
        }
        LockEvent::Ended { token, lease, how, held, .. } => match how {
            HoldEnd::Released => {
                tracing::debug!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, held = seconds(held), "released"
                )
            }
            HoldEnd::Lost(LostReason::ShutDown) => tracing::info!(
                lock.name = name, lock.token = token.get(), lock.lease_id = %lease,
                held = seconds(held), "given back by the shutdown"
            ),
            HoldEnd::Lost(LostReason::Unclaimed) => tracing::warn!(
                lock.name = name, lock.token = token.get(), lock.lease_id = %lease,
                held = seconds(held), "given back: the acquire future was not polled"
            ),
            HoldEnd::Lost(reason) => {
                tracing::error!(lock.name = name, lock.token = token.get(), lock.lease_id = %lease, lock.reason = ?reason,
                    held = seconds(held), "lost"
                )
            }
        },
        LockEvent::GuardReleased { answer, by, .. } => match (answer, by) {
            (Err(Unconfirmed), _) => {
                tracing::warn!(lock.name = name, by = ?by, "release not confirmed by the store");
            }
            (Ok(ReleaseOutcome::AlreadyExpired | ReleaseOutcome::HeldByOther), _) => {
                tracing::warn!(lock.name = name, lock.outcome = ?answer, by = ?by, "guard released too late");
            }
            (_, ReleaseKind::Explicit | ReleaseKind::Dropped) => {
                tracing::debug!(lock.name = name, lock.outcome = ?answer, by = ?by, "guard released");
            }
        },
        LockEvent::Renewal { outcome, took, remaining, .. } => {
            tracing::debug!(lock.name = name, lock.outcome = ?outcome, took = seconds(took), remaining = seconds(remaining), "renewal"
            )
        }
        LockEvent::RenewalFailed { token, remaining, error, .. } => tracing::warn!(
            lock.name = name,
            lock.token = token.get(),
            remaining = seconds(remaining),
            error = error.map(tracing::field::display),
            "renewal failed, retrying until the deadline"
        ),
        LockEvent::WakeUp { wake, .. } => {
            tracing::trace!(lock.name = name, wake = ?wake, "woken")
        }
        LockEvent::SelfDeadlock { token, waited, .. } => tracing::warn!(
            lock.name = name,
            lock.token = token.get(),
            waited = seconds(waited),
            "this process waits longer than a lease for a lock that it holds itself: \
             is a task waiting for its own guard? (re-entry needs the owner)"
        ),
    }
}
