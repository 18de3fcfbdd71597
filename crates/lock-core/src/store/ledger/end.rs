//! Keeping a run open, and ending it: only by the claim that has it.

use super::{GroupLedger, Job};
use crate::{
    backend::ledger::{EndRequest, Ended, KeepRun, KeptRun, Then},
    store::expiry,
    time::ServerTime,
};

impl GroupLedger {
    /// Keeps a run from being taken for an orphan.
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

    /// Records the end of an attempt. One that was orphaned meanwhile may still say how it ended.
    pub fn end(&mut self, now: ServerTime, r: &EndRequest) -> Ended {
        self.jobs.get_mut(&r.job.name).map_or(Ended::Gone, |job| job.end(now, r))
    }
}

impl Job {
    fn end(&mut self, now: ServerTime, r: &EndRequest) -> Ended {
        let Some(open) = self.open.get_mut(&r.run).filter(|open| open.claim == r.claim) else {
            return if self.remembers(r.run, r.claim).is_some() { Ended::Recorded } else { Ended::Gone };
        };
        // The attempt before the one that is waited for is in the history already.
        let ended = (!open.waiting).then(|| open.ended(r.run, now, r.outcome, &r.detail));
        match r.then {
            Then::Again => open.waiting = true,
            Then::Over => drop(self.open.remove(&r.run)),
        }
        if let Some(attempt) = ended {
            self.remember(attempt);
        }
        Ended::Recorded
    }
}
