//! Pools, which limit the open runs of several jobs in a group.

use super::state::{GroupLedger, Open};
use crate::{ids::RunId, reply::ClaimReply, request::ClaimRequest};
use lock_core::clock::UtcTime;

impl GroupLedger {
    /// Returns the reply to a claim whose pool is full. The run itself is not counted, so a run
    /// that waits for its next attempt keeps its slot.
    pub(super) fn refuse_by_pool(&self, now: UtcTime, r: &ClaimRequest) -> Option<ClaimReply> {
        let pool = r.pool.as_ref()?;
        let others = self.jobs.iter().flat_map(|(job, of)| {
            of.open.iter().filter(move |(run, _)| (job, *run) != (&r.job.name, &r.run))
        });
        let takes_place =
            |(_, open): &(&RunId, &Open)| open.pool.as_ref() == Some(&pool.name) && !open.is_over(now);
        let running = u32::try_from(others.filter(takes_place).count()).unwrap_or(u32::MAX);
        (running >= pool.max).then_some(ClaimReply::PoolFull { running })
    }
}
