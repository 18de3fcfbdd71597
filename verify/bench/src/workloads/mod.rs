//! The workloads: their contestants and their load.

mod contended;
mod effort;
mod growth;
mod held;
mod memory;
mod uncontended;

pub(crate) use effort::Effort;

use crate::runner::Case;
use serde::Serialize;

/// A group of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Subcommand, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// Measure one task on a free lock: latency, processor time, context switches, allocations
    Uncontended,
    /// Measure 2 to 1,024 tasks, each with its own lock
    Parallel,
    /// Measure one task on a free lock of a quorum of five servers, with all servers up and with one stopped
    Quorum,
    /// Measure 16 and 128 tasks of one process on one lock
    Contended,
    /// Measure 4 processes with 32 tasks each on one lock, without work and with 1 ms of work under the lock
    Processes,
    /// Measure a lock that two processes acquire alternately
    Handover,
    /// Measure 1,000 tasks that wait for a held lock
    Waiters,
    /// Measure 10,000 held locks and their renewals
    Held,
    /// Measure the in-memory backend
    Memory,
    /// Measure a request through `LockLayer` with a free in-memory lock
    Tower,
    /// Measure the growth of the cost with names and processes, and the limit of one Redis; takes minutes
    Growth,
}

impl Workload {
    const ALL: [Self; 11] = [
        Self::Uncontended,
        Self::Parallel,
        Self::Quorum,
        Self::Contended,
        Self::Processes,
        Self::Handover,
        Self::Waiters,
        Self::Held,
        Self::Memory,
        Self::Tower,
        Self::Growth,
    ];

    /// Returns the workloads of `all`. A short run skips `growth`, the last one.
    pub(crate) fn all(effort: Effort) -> &'static [Self] {
        if effort == Effort::Quick { &Self::ALL[..10] } else { &Self::ALL }
    }

    /// Returns the heading of the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Uncontended => "Uncontended, 1 task, server and client pinned to a processor each",
            Self::Parallel => {
                "Uncontended, many tasks with a lock each, server and client pinned to a processor each"
            }
            Self::Quorum => "Uncontended, 1 task, a quorum of five servers, which share a processor",
            Self::Contended => "One lock, one process",
            Self::Processes => "One lock, 4 processes of 32 tasks",
            Self::Handover => "Hand-over between two processes, from the release to the next hold",
            Self::Waiters => "Waiters on a held lock",
            Self::Held => "Held locks, renewed with the default lease",
            Self::Memory => "In memory",
            Self::Tower => "A request under a free in-memory lock",
            Self::Growth => "Growth, server alone on a processor",
        }
    }

    /// Returns the cases.
    pub(crate) fn cases(self, effort: Effort) -> Vec<Case> {
        match self {
            Self::Uncontended => uncontended::one_task(effort),
            Self::Parallel => uncontended::many_tasks(effort),
            Self::Quorum => uncontended::quorum(effort),
            Self::Contended => contended::one_process(effort),
            Self::Processes => contended::four_processes(effort),
            Self::Handover => contended::hand_over(effort),
            Self::Waiters => held::waiters(effort),
            Self::Held => held::held(effort),
            Self::Memory => memory::memory(effort),
            Self::Tower => memory::tower(effort),
            Self::Growth => growth::growth(effort),
        }
    }
}
