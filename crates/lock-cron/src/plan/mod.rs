//! The planner, which decides which runs are due or missed, and which claims to send next. It performs no IO and reads
//! no clock: it takes `now` as an argument, draws claim ids with a function that it was given, and returns commands.
//!
//! ```text
//!  of each job              instant comes           claim sent                claimed, skipped, decided elsewhere
//!      decided up to `cursor` ────────▶ pending ──────────▶ in flight ─────────────────────────────────▶ decided
//!                                          ▲                   │  early · busy · outdated
//!                                          └───────────────────┘
//! ```
//!
//! The diagram shows a leader's plan. In addition, every node plans the [`on_time`] runs of spread
//! jobs. If another node comes first for a scheduled time, the leader leaves the run to that node
//! for a moment, and then reads the watermark. If the run is still undecided, the leader claims it.
//! From then on, until the leader has caught up, no other node can claim the job's scheduled times.
//!
//! The events are: elected, resigned, registered and observed (each with the watermark), peers
//! read, controls changed, tick, claim completed, run ended. The commands are: claim or skip a run,
//! cancel a job's running runs, register a job, read the controls, withdraw a completed backfill,
//! report skipped runs.
//!
//! Invariants:
//! - no scheduled run or backfill is planned while its job is paused, and nothing is claimed while draining; without
//!   leadership, only on-time runs are claimed;
//! - no claim starts a run for which this node has no room, and a pool has at most one claim in flight;
//! - at most one claim of a job is in flight, and claims are sent in ascending order;
//! - a run that was decided or skipped is not claimed again under the same leadership;
//! - the number of pending runs and the work of a tick are bounded, regardless of the length of an outage.

mod backfill;
mod command;
mod missed;
mod on_time;
mod peers;
mod pending;
mod planned_job;
mod planner;
mod room;

#[cfg(test)]
mod tests;

pub(crate) use backfill::PlannedBackfill;
pub(crate) use command::{ClaimOutcome, ClaimTerms, Command, Due, EffectiveControls};
pub(crate) use missed::{Budget, previous};
pub(crate) use peers::{NODE_LEASE, Peers};
pub(crate) use planner::Planner;
pub(crate) use room::BUSY;
