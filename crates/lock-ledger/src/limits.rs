//! Limits shared by all ledgers.

use std::time::Duration;

/// The default length of a job's history, in entries.
pub const DEFAULT_HISTORY: u32 = 100;

/// The maximum length of a job's history, in entries.
pub const MAX_HISTORY: u32 = 1000;

/// The maximum number of waiting triggers in a group.
pub const MAX_TRIGGERS: usize = 1000;

/// The maximum number of waiting triggers of one job.
pub const MAX_TRIGGERS_PER_JOB: usize = 100;

/// The number of schedules of a job whose start times are kept: the latest ones.
pub const MAX_SCHEDULES: usize = 8;

/// The time without a registration after which a job counts as removed, if the group had a leader in that time. When
/// such a job returns, its schedule starts then.
pub const ABSENT_AFTER: Duration = Duration::from_secs(600);
