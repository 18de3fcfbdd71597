//! The runs in progress on this node.

use crate::hold::RunHold;
use lock_core::{__private::lock, LockName, clock::Moment};
use lock_ledger::{ClaimId, RunId, RunRenewal};
use std::{collections::BTreeMap, sync::Mutex};
use tokio::sync::watch;

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunKey {
    pub(crate) job: LockName,
    pub(crate) run: RunId,
}

/// The reason why a body must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelReason {
    /// The scheduler is shutting down.
    Shutdown,
    /// A later run replaces this one.
    Replaced,
    /// A command cancelled it.
    Cancelled,
}

impl CancelReason {
    /// Returns the reason for the history.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Shutdown => "the scheduler shut down",
            Self::Replaced => "a later run replaced it",
            Self::Cancelled => "it was cancelled",
        }
    }
}

/// Receives the reason why a run must end.
#[derive(Debug, Clone)]
pub(crate) struct CancelSignal(watch::Receiver<Option<CancelReason>>);

impl CancelSignal {
    /// Completes when the run must end.
    pub(crate) async fn cancelled(mut self) -> CancelReason {
        let reason = self.0.wait_for(Option::is_some).await.map(|reason| *reason);
        // If the sender is gone, so is the scheduler.
        reason.ok().flatten().unwrap_or(CancelReason::Shutdown)
    }
}

/// The claim of an attempt and its lease.
#[derive(Debug, Clone)]
pub(crate) struct HeldClaim {
    pub(crate) claim: ClaimId,
    pub(crate) hold: RunHold,
}

/// A run with a lease to renew.
#[derive(Debug, Clone)]
pub(crate) struct HeldRun {
    pub(crate) key: RunKey,
    pub(crate) held: HeldClaim,
}

/// The runs of this node, from the claim to the recorded end.
#[derive(Debug, Default)]
pub(crate) struct RunningRuns {
    runs: Mutex<BTreeMap<RunKey, Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// The latest claimed attempt.
    held: HeldClaim,
    cancel: watch::Sender<Option<CancelReason>>,
}

impl RunningRuns {
    /// Adds a run, which stays until [`remove`](Self::remove).
    pub(crate) fn add(&self, key: RunKey, held: HeldClaim) -> CancelSignal {
        let (cancel, cancelled) = watch::channel(None);
        lock(&self.runs).insert(key, Entry { held, cancel });
        CancelSignal(cancelled)
    }

    /// Replaces the attempt of a run with the next one.
    pub(crate) fn follow(&self, key: &RunKey, held: HeldClaim) {
        if let Some(entry) = lock(&self.runs).get_mut(key) {
            entry.held = held;
        }
    }

    pub(crate) fn remove(&self, key: &RunKey) {
        lock(&self.runs).remove(key);
    }

    /// Asks the bodies of matching runs to end. The first reason is kept.
    pub(crate) fn cancel(&self, which: impl Fn(&RunKey) -> bool, reason: CancelReason) {
        for (_, entry) in lock(&self.runs).iter().filter(|(key, _)| which(key)) {
            entry.cancel.send_if_modified(|now| {
                let first = now.is_none();
                now.get_or_insert(reason);
                first
            });
        }
    }

    /// Lists the runs with a lease to renew.
    pub(crate) fn to_renew(&self) -> Vec<HeldRun> {
        let runs = lock(&self.runs);
        runs.iter().map(|(key, entry)| HeldRun { key: key.clone(), held: entry.held.clone() }).collect()
    }

    /// Handles the replies to a renewal of these runs that was sent at this moment. Each attempt
    /// has its own hold, so a reply for an earlier attempt does not affect the next one.
    pub(crate) fn renewed(&self, sent: Moment, runs: &[HeldRun], answers: &[RunRenewal]) {
        for (HeldRun { key, held }, answer) in runs.iter().zip(answers) {
            match answer {
                RunRenewal::Renewed => held.hold.renewed(sent),
                RunRenewal::Replaced => {
                    held.hold.renewed(sent);
                    self.cancel(|of| of == key, CancelReason::Replaced);
                }
                RunRenewal::Cancelled => {
                    held.hold.renewed(sent);
                    self.cancel(|of| of == key, CancelReason::Cancelled);
                }
                _ => held.hold.gone(),
            }
        }
    }

    pub(crate) fn has(&self, key: &RunKey) -> bool {
        lock(&self.runs).contains_key(key)
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.runs).len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.runs).is_empty()
    }
}
