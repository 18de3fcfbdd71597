//! Limits shared by all ledgers.

use std::time::Duration;

/// The default length of a job's history, in entries.
pub const DEFAULT_HISTORY: u32 = 100;

/// The maximum length of a job's history, in entries.
pub const MAX_HISTORY: u32 = 1000;

/// The maximum number of pending triggers in a group.
pub const MAX_TRIGGERS: usize = 1000;

/// The maximum number of pending triggers of one job.
pub const MAX_TRIGGERS_PER_JOB: usize = 100;

/// The maximum number of triggers in a group that are waiting with a payload.
pub const MAX_TRIGGER_PAYLOADS: usize = 256;

/// The maximum number of unfinished backfills in a group.
pub const MAX_BACKFILLS: usize = 100;

/// The maximum number of unfinished backfills of one job.
pub const MAX_BACKFILLS_PER_JOB: usize = 4;

/// The maximum number of schedules of a job whose start times are kept. The least recently registered one is dropped
/// first.
pub const MAX_SCHEDULES: usize = 8;

/// The time without a registration after which a job counts as removed, if the group had a leader
/// during that time. If the job returns, its schedule starts when it is registered again.
pub const ABSENT_AFTER: Duration = Duration::from_secs(600);

/// The maximum number of instances in a group.
pub const MAX_INSTANCES: usize = 10_000;

/// The maximum total length of the payloads of a group's instances, in bytes.
pub const MAX_INSTANCE_PAYLOADS: usize = 128 * 1024 * 1024;

/// The maximum number of instances in one reply of a ledger.
pub const MAX_INSTANCES_READ: usize = 500;

/// The maximum number of times that nodes decline a run before it has failed.
pub const MAX_DECLINES: u32 = 16;

/// The maximum number of recorded changes to a group's instances. A node that has missed more
/// changes reads all instances, page by page.
pub const MAX_CHANGES: usize = MAX_INSTANCES_READ;

/// The time for which a change to an instance is recorded. After that, the name of a forgotten
/// instance is removed too.
pub const CHANGE_LIFE: Duration = Duration::from_secs(60);
/// The number of latest outcomes in a job's summary.
pub const RECENT_OUTCOMES: usize = 20;
