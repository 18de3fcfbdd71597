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
//! Events: elected, resigned, registered (with the watermark), controls changed, tick, claim answered, run ended.
//! Commands: claim (or skip), start here (jobs of each node), cancel running ones, register, read the controls, count
//! skipped runs.
//!
//! Invariants:
//! - nothing is claimed without leadership, while paused, or while draining;
//! - at most one claim of a job is in flight, and claims go in ascending order;
//! - `cursor` and pending runs never go back: a decided or skipped run is not claimed again under the same leadership;
//! - the number of pending runs and the work of a tick are bounded, however long an outage was.

mod command;
mod missed;
mod pending;
mod planned_job;
mod planner;

#[cfg(test)]
mod tests;

pub(crate) use command::{ClaimOutcome, Command, Due, EffectiveControls};
pub(crate) use missed::Budget;
pub(crate) use planner::Planner;
