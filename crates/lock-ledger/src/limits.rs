//! The bounds that all ledgers share.

use std::time::Duration;

/// The length of a job's history unless the scheduler chooses another one, in entries.
pub const DEFAULT_HISTORY: u32 = 100;

/// The longest history of a job, in entries.
pub const MAX_HISTORY: u32 = 1000;

/// The number of triggers of a group that may wait.
pub const MAX_TRIGGERS: usize = 1000;

/// The number of triggers of one job that may wait.
pub const MAX_TRIGGERS_PER_JOB: usize = 100;

/// The number of schedules of a job whose beginnings are remembered: the latest ones.
pub const MAX_SCHEDULES: usize = 8;

/// The time after which a job that no leader has registered counts as removed, if the group had a leader meanwhile. When such
/// a job comes back, its schedule begins then.
pub const ABSENT_AFTER: Duration = Duration::from_secs(600);
