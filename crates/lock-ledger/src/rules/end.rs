//! Keeping a run, and ending an attempt: only by the claim that has it.

use super::{GroupLedger, Job, Stage};
use crate::{EndRequest, Ended, KeepRun, KeptRun, Then};
use lock_core::{__private::expiry, ServerTime};

impl GroupLedger {
    /// Renews the lease of a run.
    pub fn keep(&mut self, now: ServerTime, item: &KeepRun) -> KeptRun {
        let open = self.jobs.get_mut(&item.job).and_then(|job| job.open.get_mut(&item.run));
        match open.filter(|open| open.claim == item.claim && !open.is_over(now)) {
            Some(open) => {
                open.expires_ms = open.expires_ms.max(expiry(now, item.lease));
                if open.replaced { KeptRun::Replaced } else { KeptRun::Kept }
            }
            None => KeptRun::Gone,
        }
    }

    /// Records the end of an attempt. One that was orphaned meanwhile may still say how it ended. A run that is released
    /// raises the revision of the group, so that the leader looks at once.
    pub fn end(&mut self, now: ServerTime, r: &EndRequest) -> Ended {
        let Some(job) = self.jobs.get_mut(&r.job.name) else { return Ended::Gone };
        let is_open = job.open.get(&r.run).is_some_and(|open| open.claim == r.claim);
        if is_open && matches!(r.then, Then::HandOver | Then::GiveBack) {
            self.revision += 1;
        }
        job.end(now, r)
    }
}

impl Job {
    fn end(&mut self, now: ServerTime, r: &EndRequest) -> Ended {
        let Some(open) = self.open.get_mut(&r.run).filter(|open| open.claim == r.claim) else {
            return if self.remembers(r.run, Some(r.claim)) { Ended::Recorded } else { Ended::Gone };
        };
        // Of an attempt that has ended before, the history has the end already.
        let was_running = open.stage == Stage::Running;
        let ended =
            (was_running && r.then != Then::GiveBack).then(|| open.ended(r.run, now, r.outcome, &r.detail));
        match r.then {
            Then::Over => {}
            Then::Again if was_running => (open.stage, open.failures) = (Stage::Failed, open.failures + 1),
            Then::HandOver if was_running => open.stage = Stage::Interrupted,
            Then::GiveBack if was_running => open.stage = Stage::Unbegun,
            Then::Again | Then::HandOver | Then::GiveBack => {}
        }
        match r.then {
            Then::Over => drop(self.open.remove(&r.run)),
            Then::HandOver | Then::GiveBack => open.expires_ms = 0,
            Then::Again => {}
        }
        if let Some(attempt) = ended {
            self.remember(attempt, r.history);
        }
        Ended::Recorded
    }
}
