//! The runs that are under way on this node.

use crate::hold::RunHold;
use lock_core::{__private::lock, LockName, clock::Moment};
use lock_ledger::{ClaimId, RunId, RunRenewal};
use std::{collections::BTreeMap, sync::Mutex};
use tokio::sync::watch;

/// The reason for which a body is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The scheduler shuts down.
    ShutDown,
    /// A later run replaces it.
    Replaced,
}

/// The runs of this node, from the claim to the recorded end.
#[derive(Debug, Default)]
pub(crate) struct Running {
    runs: Mutex<BTreeMap<(LockName, RunId), Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// Of the last attempt that was claimed; none in a job of each node.
    held: Option<Held>,
    cancel: watch::Sender<Option<Why>>,
}

/// An attempt that has to be kept.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) claim: ClaimId,
    pub(crate) hold: RunHold,
}

impl Running {
    /// Adds a run; its entry is there until [`over`](Self::over).
    pub(crate) fn begin(
        &self,
        job: &LockName,
        run: RunId,
        held: Option<Held>,
    ) -> watch::Receiver<Option<Why>> {
        let (cancel, cancelled) = watch::channel(None);
        lock(&self.runs).insert((job.clone(), run), Entry { held, cancel });
        cancelled
    }

    /// The next attempt of a run was claimed.
    pub(crate) fn follow(&self, job: &LockName, run: RunId, held: Held) {
        if let Some(entry) = lock(&self.runs).get_mut(&(job.clone(), run)) {
            entry.held = Some(held);
        }
    }

    pub(crate) fn over(&self, job: &LockName, run: RunId) {
        lock(&self.runs).remove(&(job.clone(), run));
    }

    /// Tells bodies to end: one, those of a job, or all. The first reason stays.
    pub(crate) fn cancel(&self, which: impl Fn(&LockName, RunId) -> bool, why: Why) {
        for ((job, run), entry) in lock(&self.runs).iter() {
            if which(job, *run) {
                entry.cancel.send_if_modified(|now| {
                    let first = now.is_none();
                    now.get_or_insert(why);
                    first
                });
            }
        }
    }

    /// Lists the attempts whose leases have to be renewed.
    pub(crate) fn to_keep(&self) -> Vec<(LockName, RunId, Held)> {
        let runs = lock(&self.runs);
        let held = runs.iter().filter_map(|((job, run), entry)| Some((job, run, entry.held.clone()?)));
        held.map(|(job, run, held)| (job.clone(), *run, held)).collect()
    }

    /// Takes the answers to a request to keep these attempts, sent at this moment. An attempt that was followed by another
    /// meanwhile has a hold of its own, so that an answer about one says nothing about the other.
    pub(crate) fn kept(&self, sent: Moment, attempts: &[(LockName, RunId, Held)], answers: &[RunRenewal]) {
        for ((job, run, held), answer) in attempts.iter().zip(answers) {
            match answer {
                RunRenewal::Renewed => held.hold.renewed(sent),
                RunRenewal::Replaced => {
                    held.hold.renewed(sent);
                    self.cancel(|name, of| name == job && of == *run, Why::Replaced);
                }
                _ => held.hold.gone(),
            }
        }
    }

    pub(crate) fn has(&self, job: &LockName, run: RunId) -> bool {
        lock(&self.runs).contains_key(&(job.clone(), run))
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.runs).is_empty()
    }
}
