//! The planner: due runs, missed runs, and the next claims. A plain value: `now` is an argument, commands are the
//! result.
//!
//! ```text
//!  of each job              instant comes           claim sent                claimed, skipped, decided elsewhere
//!      decided up to `cursor` ────────▶ pending ──────────▶ in flight ─────────────────────────────────▶ decided
//!                                          ▲                   │  early · busy · outdated
//!                                          └───────────────────┘
//! ```
//!
//! The plan above is that of a leader. Beside it, every node has the [`on_time`] runs of spread jobs. The leader leaves an instant to its node for a moment, and reads the watermark before it takes it:
//! from then on, until it has caught up, the instants of the job are its own.
//!
//! Events: elected, resigned, registered and observed (with the watermark), peers read, controls changed, tick, claim
//! answered, run ended.
//! Commands: claim (or skip), cancel running ones, register, read the controls, count skipped runs.
//!
//! Invariants:
//! - nothing is claimed while paused or while draining; without leadership only what is on time;
//! - no claim starts a run for which this node has no room, and one claim of a pool is in flight;
//! - at most one claim of a job is in flight, and claims go in ascending order;
//! - `cursor` and pending runs never go back: a decided or skipped run is not claimed again under the same leadership;
//! - the number of pending runs and the work of a tick are bounded, however long an outage was.

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
