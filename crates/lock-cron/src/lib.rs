//! Jobs that run at their times once in a fleet.
//!
//! A [`Scheduler`] has jobs, and starts each of their runs once, on one node of all.
//!
//! A [`Schedule`] says when; it is the same on every node, whatever zone the node is in.
//!
//! ```
//! use lock_cron::Schedule;
//!
//! let nightly = Schedule::cron("0 2 * * *")?.in_tz("Europe/Berlin")?;
//! for run in nightly.next_runs(3) {
//!     println!("{run}");
//! }
//! # Ok::<(), lock_cron::ScheduleError>(())
//! ```
//!
//! # Features
//! | feature | default | gives |
//! | --- | --- | --- |
//! | `axum` | off | `router`, the jobs and their history as JSON and as a page |
//! | `bundled-zones` | on | a copy of the time zone database in the binary, for machines without one; that of the system is preferred |
//! | `otel` | off | `OtelCronObserver`, on the OpenTelemetry API 0.33 |

mod builder;
mod context;
mod drive;
mod error;
mod job;
mod node;
mod observe;
mod options;
#[cfg(feature = "otel")]
mod otel;
mod plan;
mod run;
mod schedule;
mod scheduler;
mod start;
mod store;
mod time;
#[cfg(feature = "axum")]
mod web;

pub use builder::SchedulerBuilder;
pub use context::RunContext;
pub use error::{CronError, CronErrorKind};
pub use job::{JobBuilder, RunResult};
#[doc(no_inline)]
pub use lock_core::backend::ledger::{Attempt, CatchUp, OpenRun, RunId, RunOutcome, RunState};
pub use observe::{CronEvent, CronObserver};
pub use options::{Misfire, OnOrphan, Overlap, Retries, Scope, StartJitter};
#[cfg(feature = "otel")]
pub use otel::OtelCronObserver;
pub use plan::SkipReason;
pub use schedule::{
    DstPolicy, Field, Fingerprint, Fold, Gap, MAX_TEXT_BYTES, Runs, Schedule, ScheduleError,
    ScheduleErrorKind, UtcTime,
};
pub use scheduler::{JobView, Scheduler};
#[cfg(feature = "axum")]
pub use web::router;
