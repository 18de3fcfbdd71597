//! Renewal and end of an attempt, which only its claim can request.

use super::state::{GroupLedger, Job, Stage};
use crate::{
    limits::MAX_DECLINES,
    reply::{EndReply, RunRenewal},
    request::{AfterAttempt, EndRequest, RenewRun},
};
use lock_core::{__private::expiry, clock::UtcTime};

impl GroupLedger {
    /// Renews the lease of a run.
    pub fn renew(&mut self, now: UtcTime, item: &RenewRun) -> RunRenewal {
        let open = self.jobs.get_mut(&item.job).and_then(|job| job.open.get_mut(&item.run));
        match open.filter(|open| open.claim == item.claim && !open.is_over(now)) {
            Some(open) => {
                open.expires_ms = open.expires_ms.max(expiry(now, item.lease));
                match (open.cancelled, open.replaced) {
                    (true, _) => RunRenewal::Cancelled,
                    (false, true) => RunRenewal::Replaced,
                    (false, false) => RunRenewal::Renewed,
                }
            }
            None => RunRenewal::Gone,
        }
    }

    /// Records the end of an attempt, even if it was orphaned in the meantime. If any node can
    /// continue the run, the group's revision is raised so that the leader checks immediately.
    pub fn end(&mut self, now: UtcTime, r: &EndRequest) -> EndReply {
        let open = self.jobs.get(&r.job.name).and_then(|job| job.open.get(&r.run));
        let open = open.filter(|open| open.claim == r.claim);
        let is_open = open.is_some();
        let then = match (open, r.then) {
            (Some(open), _) if open.cancelled => AfterAttempt::Finish,
            (Some(open), AfterAttempt::Decline)
                if open.stage == Stage::Running && open.declines + 1 >= MAX_DECLINES =>
            {
                AfterAttempt::Finish
            }
            (_, then) => then,
        };
        if is_open && !matches!(then, AfterAttempt::Finish | AfterAttempt::Retry) {
            let revision = self.raise_revision(now);
            if then == AfterAttempt::Decline {
                self.declined = revision;
            }
        }
        let reply = self.jobs.get_mut(&r.job.name).map_or(EndReply::Gone, |job| job.end(now, r, then));
        if is_open && then == AfterAttempt::Finish {
            self.payloads.remove(&(r.job.name.clone(), r.run));
            self.conclude(now, &r.job.name);
        }
        reply
    }
}

impl Job {
    fn end(&mut self, now: UtcTime, r: &EndRequest, then: AfterAttempt) -> EndReply {
        let Some(open) = self.open.get_mut(&r.run).filter(|open| open.claim == r.claim) else {
            return if self.remembers(r.run, Some(r.claim)) { EndReply::Recorded } else { EndReply::Gone };
        };
        // An attempt that has already ended is in the history, unless it was requeued.
        let was_running = open.stage == Stage::Running;
        let is_last = open.stage == Stage::Unbegun && then == AfterAttempt::Finish;
        let unbegun =
            matches!(then, AfterAttempt::Requeue | AfterAttempt::Postpone { .. } | AfterAttempt::Decline);
        let ended =
            (was_running && !unbegun || is_last).then(|| open.ended(r.run, now, r.outcome, &r.detail));
        if was_running && then != AfterAttempt::Decline {
            // The node could read the payload, or did not try.
            open.declines = 0;
        }
        match then {
            AfterAttempt::Finish => {}
            AfterAttempt::Retry if was_running => {
                (open.stage, open.attempts.failures) = (Stage::Failed, open.attempts.failures + 1);
            }
            AfterAttempt::Reassign if was_running => open.stage = Stage::Interrupted,
            AfterAttempt::Decline if was_running => {
                (open.stage, open.declines) = (Stage::Unbegun, open.declines + 1);
            }
            _ if was_running => open.stage = Stage::Unbegun,
            _ => {}
        }
        match then {
            AfterAttempt::Finish => drop(self.open.remove(&r.run)),
            AfterAttempt::Reassign | AfterAttempt::Requeue | AfterAttempt::Decline => open.expires_ms = 0,
            AfterAttempt::Postpone { delay } => open.expires_ms = expiry(now, delay),
            AfterAttempt::Retry => {}
        }
        if let Some(attempt) = ended {
            self.remember(attempt, r.history);
        }
        EndReply::Recorded
    }
}
