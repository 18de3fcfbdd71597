//! Backfills, which run a job for past scheduled times, one at a time.

use lock_core::{LockName, clock::UtcTime};
use uuid::Uuid;

/// A request to run a job for past times of a schedule. The ledger parses neither the schedule nor
/// the policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BackfillRequest {
    /// The backfill's random id.
    pub id: Uuid,
    /// The first scheduled time, in whole milliseconds. It must be after the epoch.
    pub first: UtcTime,
    /// The last scheduled time, in whole milliseconds.
    pub last: UtcTime,
    /// The number of scheduled times, for display.
    pub count: u32,
    /// The schedule, with its time zone.
    pub schedule: String,
    /// The policy for clock changes.
    pub dst: String,
}

/// A backfill with scheduled times left to start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backfill {
    /// The backfill's id.
    pub id: Uuid,
    /// The job.
    pub job: LockName,
    /// The time of the command, by the server's clock.
    pub given: UtcTime,
    /// The first scheduled time.
    pub first: UtcTime,
    /// The time up to which runs have been started.
    pub mark: UtcTime,
    /// The last scheduled time.
    pub last: UtcTime,
    /// The number of scheduled times, for display.
    pub count: u32,
    /// The number of scheduled times that have been started, for display.
    pub done: u32,
    /// The schedule, with its time zone.
    pub schedule: String,
    /// The policy for clock changes.
    pub dst: String,
}
