//! Backfills: runs of past instants, one at a time.

use lock_core::{LockName, clock::UtcTime};
use uuid::Uuid;

/// The past instants to run, as a part of a schedule. The ledger does not parse the schedule or the policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BackfillRequest {
    /// The random id of the backfill.
    pub id: Uuid,
    /// The first instant, in whole milliseconds, after the epoch.
    pub first: UtcTime,
    /// The last instant, in whole milliseconds.
    pub last: UtcTime,
    /// The number of instants, for display.
    pub count: u32,
    /// The schedule, with its time zone.
    pub schedule: String,
    /// The policy for clock changes.
    pub dst: String,
}

/// A backfill that still has instants to start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backfill {
    /// Its id.
    pub id: Uuid,
    /// The job.
    pub job: LockName,
    /// The time of the command, by the server's clock.
    pub given: UtcTime,
    /// Its first instant.
    pub first: UtcTime,
    /// The time up to which its instants have been started.
    pub mark: UtcTime,
    /// Its last instant.
    pub last: UtcTime,
    /// The number of its instants, for display.
    pub count: u32,
    /// The number of its instants that have been started, for display.
    pub done: u32,
    /// Its schedule, with the time zone.
    pub schedule: String,
    /// The policy for clock changes.
    pub dst: String,
}
