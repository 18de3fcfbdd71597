//! The planner: due runs, missed runs, and the next claims. It is a plain value: it takes `now` as an argument and
//! returns commands.
//!
//! ```text
//!  of each job              instant comes           claim sent                claimed, skipped, decided elsewhere
//!      decided up to `cursor` ────────▶ pending ──────────▶ in flight ─────────────────────────────────▶ decided
//!                                          ▲                   │  early · busy · outdated
//!                                          └───────────────────┘
//! ```
//!
//! The diagram shows the plan of a leader. In addition, every node has the [`on_time`] runs of
//! spread jobs. The leader leaves a scheduled time to its node for a moment, and reads the
//! watermark before it takes the scheduled time. From then on, until it has caught up, only the
//! leader claims the scheduled times of the job.
//!
//! Events: elected, resigned, registered and observed (with the watermark), peers read, controls
//! changed, tick, claim completed, run ended. Commands: claim (or skip), cancel the running runs of
//! a job, register, read the controls, count skipped runs.
//!
//! Invariants:
//! - no scheduled run or backfill is planned while its job is paused, and nothing is claimed while draining; without
//!   leadership, only on-time runs are claimed;
//! - no claim starts a run for which this node has no room, and a pool has at most one claim in flight;
//! - at most one claim of a job is in flight, and claims are sent in ascending order;
//! - `cursor` and pending runs never go back: a decided or skipped run is not claimed again under the same leadership;
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
pub(crate) use command::{ClaimOutcome, Command, Due, EffectiveControls};
pub(crate) use missed::{Budget, previous};
pub(crate) use peers::{NODE_LEASE, Peers};
pub(crate) use planned_job::BUSY;
pub(crate) use planner::Planner;
