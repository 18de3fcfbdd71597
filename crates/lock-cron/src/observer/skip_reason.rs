//! The reasons for skipping runs.

use std::fmt;

/// The reason for skipping a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SkipReason {
    /// Other runs of the job were open.
    Overlap,
    /// The run was missed, and the misfire policy does not start it.
    Missed,
    /// The run waited in the queue until a later run replaced it.
    Queue,
    /// The trigger waited longer than its life.
    Expired,
    /// No node had room for the run within its grace, or its pool was full; see
    /// [`max_running`](crate::SchedulerBuilder::max_running) and [`pool`](crate::JobBuilder::pool).
    NoCapacity,
    /// Another node had already decided this run, or a later one.
    DecidedElsewhere,
    /// The store lost the job's watermark, so it is unknown which runs were started.
    DataLoss,
}

impl SkipReason {
    /// Returns the value in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overlap => "overlap",
            Self::Missed => "missed",
            Self::Queue => "queue",
            Self::Expired => "expired",
            Self::NoCapacity => "no_capacity",
            Self::DecidedElsewhere => "decided_elsewhere",
            Self::DataLoss => "data_loss",
        }
    }

    /// Returns the text for the history.
    pub(crate) const fn detail(self) -> &'static str {
        match self {
            Self::Overlap => "other runs were open",
            Self::Missed => "missed",
            Self::Queue => "a later run took its place",
            Self::Expired => "the trigger expired",
            Self::NoCapacity => "no node had room, or its pool was full",
            Self::DecidedElsewhere => "decided elsewhere",
            Self::DataLoss => "the store lost its data",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
