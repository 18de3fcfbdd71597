//! Instances, which are jobs that can be added and removed at run time because their definitions
//! are in the ledger.

use crate::ids::JobId;
use lock_core::{LockName, clock::UtcTime};
use std::time::Duration;

/// The definition of an instance. The ledger does not parse its schedule or policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Definition {
    /// The schedule, with its time zone.
    pub schedule: String,
    /// The policy for clock changes.
    pub dst: String,
    /// The terms of an instance that runs once; `None` otherwise.
    pub once: Option<Once>,
}

/// The terms of an instance that runs once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Once {
    /// The scheduled time of its run, in whole milliseconds.
    pub at: UtcTime,
    /// The time for which its name is kept after the run, in whole milliseconds, so that a repeated
    /// request does not run it again.
    pub kept: Duration,
}

/// A stored instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "__stored", derive(serde::Serialize, serde::Deserialize))]
pub struct Instance {
    /// The instance's name among the group's jobs.
    pub name: LockName,
    /// Its definition.
    pub definition: Definition,
    /// The revision of the definition, for claims.
    pub revision: u64,
    /// The node that added or last changed it, for display.
    pub added_by: String,
    /// The time at which it was added or last changed, by the server's clock.
    pub added_at: UtcTime,
    /// The time at which its schedule was added or last changed, by the server's clock.
    pub since: UtcTime,
}

/// A stored instance with its payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InstanceDetail {
    /// The instance.
    pub instance: Instance,
    /// The argument for its runs.
    pub payload: String,
}

/// A request to add an instance, or to change its definition or payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddRequest {
    /// The instance.
    pub job: JobId,
    /// Its definition.
    pub definition: Definition,
    /// The argument for its runs. The ledger does not parse it; an empty one counts as none.
    pub payload: String,
    /// The node that sends the request, for display.
    pub added_by: String,
}

/// The reply to a request to add an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddReply {
    /// The instance is new. Its first scheduled time is after the request, unless it runs once.
    Added,
    /// The instance had another definition or payload. If the schedule changed, the next scheduled
    /// time is after the request, unless the instance runs once.
    Changed,
    /// The instance already has this definition and this payload.
    Unchanged,
    /// The name belongs to an instance that runs once. It has already run, or the request would
    /// make it run repeatedly. Nothing was changed.
    AlreadyRun,
    /// The instance runs once, at a time that is not after the job's watermark, so it could never be
    /// claimed. Nothing was changed. A later time is accepted.
    Decided {
        /// The job's watermark.
        up_to: UtcTime,
    },
    /// The group already has [`MAX_INSTANCES`](crate::MAX_INSTANCES).
    Full,
    /// The payloads of the group's instances would exceed
    /// [`MAX_INSTANCE_PAYLOADS`](crate::MAX_INSTANCE_PAYLOADS).
    PayloadsTooLarge,
}

/// The extent of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Removal {
    /// Removes the definition, the summary and pending triggers, but keeps the watermark, the history,
    /// the controls and open runs. A one-time instance without open runs is forgotten entirely.
    KeepRecord,
    /// Removes everything that the ledger stores about the job. Nodes lose its open runs.
    Forget,
}

/// The reply to a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemoveReply {
    /// The instance was removed by this request.
    Removed,
    /// There was nothing to remove.
    Unknown,
}

/// The part of a group's instances to read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum InstancesFrom {
    /// The instances that changed after this revision, or the first page of all if these changes are
    /// no longer recorded.
    Revision(u64),
    /// The page of all instances that follows this name.
    Name(LockName),
}

/// The instances of a group, without their payloads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Instances {
    /// The instances still have the caller's revision.
    Unchanged,
    /// Some instances have changed since the caller's revision.
    Changed {
        /// The revision of the group's instances.
        revision: u64,
        /// The instances that were added or changed, ordered by name.
        instances: Vec<Instance>,
        /// The names of the removed instances, in order.
        removed: Vec<LockName>,
    },
    /// A page of all instances, because the changes since the caller's revision are no longer
    /// recorded. Instances may change between two pages, so a reader of several pages continues with
    /// the changes since the revision of the first.
    All {
        /// The revision of the group's instances.
        revision: u64,
        /// At most [`MAX_INSTANCES_READ`](crate::MAX_INSTANCES_READ) instances, ordered by name.
        instances: Vec<Instance>,
        /// The name that the next page follows; `None` for the last page.
        next: Option<LockName>,
    },
}
