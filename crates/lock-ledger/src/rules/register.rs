//! Registration of jobs, and read-only views of a group.

use super::state::{GroupLedger, Job, Open, Since};
use crate::{
    ids::RunId,
    limits::{ABSENT_AFTER, MAX_SCHEDULES},
    reply::{JobStatus, RegisteredJob},
    request::Registration,
    run::{Attempt, OpenRun},
};
use lock_core::{LockName, clock::UtcTime};
use std::time::Duration;

impl Job {
    /// Starts a schedule that is new to the job, or whose job was absent while other jobs in its
    /// group were present.
    fn begin(&mut self, now_ms: u64, schedule: u64, led_ms: u64) {
        let since = self.since.entry(schedule).or_insert(Since { from_ms: now_ms, seen_ms: led_ms });
        if u128::from(led_ms.saturating_sub(since.seen_ms)) > ABSENT_AFTER.as_millis() {
            since.from_ms = now_ms;
        }
        since.seen_ms = led_ms;
        while self.since.len() > MAX_SCHEDULES {
            let others = self.since.iter().filter(|(fingerprint, _)| **fingerprint != schedule);
            let oldest = others.min_by_key(|(fingerprint, since)| (since.seen_ms, **fingerprint));
            let Some((&oldest, _)) = oldest else { break };
            self.since.remove(&oldest);
        }
    }
}

impl GroupLedger {
    /// Registers jobs.
    pub fn register(&mut self, now: UtcTime, jobs: &[Registration]) -> Vec<RegisteredJob> {
        let now_ms = now.as_millis();
        self.create(now);
        let silent_ms = now_ms.saturating_sub(std::mem::replace(&mut self.seen_ms, now_ms));
        // An outage of all nodes or a clock step does not make a job absent.
        if u128::from(silent_ms) <= ABSENT_AFTER.as_millis() {
            self.led_ms += silent_ms;
        }
        let led_ms = self.led_ms;
        let register = |registration: &Registration| {
            let known = self.jobs.contains_key(&registration.job);
            let job = self.jobs.entry(registration.job.clone()).or_default();
            if !known {
                job.watermark_ms = now_ms;
            }
            job.begin(now_ms, registration.schedule, led_ms);
            let watermark = UtcTime::from_millis(job.decided_ms(registration.schedule));
            RegisteredJob { watermark, status: if known { JobStatus::Existing } else { JobStatus::New } }
        };
        jobs.iter().map(register).collect()
    }

    /// Reads watermarks.
    #[must_use]
    pub fn watermarks(&self, jobs: &[Registration]) -> Vec<Option<UtcTime>> {
        let read =
            |r: &Registration| Some(UtcTime::from_millis(self.jobs.get(&r.job)?.decided_ms(r.schedule)));
        jobs.iter().map(read).collect()
    }

    /// Lists the open runs.
    #[must_use]
    pub fn open_runs(&self, now: UtcTime) -> Vec<OpenRun> {
        let of_job = |(name, job): (&LockName, &Job)| {
            let open = |(run, open): (&RunId, &Open)| OpenRun {
                job: name.clone(),
                run: *run,
                attempt: open.attempts.number,
                claim: open.claim,
                token: open.token,
                node: open.node.clone(),
                started: open.started,
                remaining: Duration::from_millis(open.expires_ms.saturating_sub(now.as_millis())),
                state: open.state(now),
                pool: open.pool.clone(),
                cancelled: open.cancelled,
                declines: open.declines,
            };
            job.open.iter().map(open).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job).collect()
    }

    /// Lists the last entries of a job's history, newest first.
    #[must_use]
    pub fn history(&self, job: &LockName, max: usize) -> Vec<Attempt> {
        self.jobs.get(job).map_or_else(Vec::new, |job| job.history.iter().take(max).cloned().collect())
    }
}
