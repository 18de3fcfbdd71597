//! Cron jobs that start exactly once across a fleet.
//!
//! Every node registers its jobs and runs its [`Scheduler`]. Each run is started once, on one of
//! the nodes: the runs are spread over all nodes with [room](SchedulerBuilder::max_running), unless
//! their [placement](JobBuilder::placement) is the leader. A [`Schedule`] yields the same times on
//! every node.
//!
//! ```no_run
//! use lock_core::{LockFactory, MemoryBackend};
//! use lock_cron::{MemoryLedger, Schedule, Scheduler};
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In production, use one Redis, PostgreSQL or SQLite file for all nodes:
//! // `let (locks, ledger) = distlock::connect_with_ledger(url).await?`.
//! let locks = LockFactory::new(MemoryBackend::new());
//!
//! let cron = Scheduler::builder(locks, MemoryLedger::new()).group("billing").build()?;
//! cron.job("invoices", Schedule::cron("0 2 * * *")?.in_tz("Europe/Berlin")?, |run| async move {
//!     println!("{}: write the invoices with token {}", run.scheduled_at(), run.fencing_token());
//!     Ok(())
//! })
//! .register()?;
//! cron.run_until(lock_core::shutdown_signal()?).await?; // SIGTERM or Ctrl-C: the feature `signal` of lock-core
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//! - Each run is *started* once in the fleet, as long as the store keeps its data, and never
//!   before its scheduled time by the server's clock. The selection of a node and the election of a
//!   leader only improve efficiency: two nodes that claim the same run, or two concurrent leaders,
//!   are harmless.
//! - The *effects* happen only once if the resource checks the [token](RunContext::fencing_token)
//!   or the [id](RunContext::id) of the run.
//! - When a node dies, others run its jobs within two seconds. If the node was the leader, they do
//!   so within the [leadership lease](SchedulerBuilder::leadership_lease) (10 s) plus a second.
//!   When the leader is shut down, another node takes over immediately, and also starts the runs
//!   whose bodies had not started.
//! - New jobs, returning jobs and changed schedules take effect when they are registered. They
//!   never run for scheduled times that have already passed.
//!
//! # Defaults
//! - A run whose node died is not run again ([`on_orphan`](JobBuilder::on_orphan)).
//! - The latest missed run is caught up ([`misfire`](JobBuilder::misfire)).
//! - A run that is due while another is open is skipped ([`overlap`](JobBuilder::overlap)).
//!
//! # Features
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `axum` | off | `router` and `router_with_actions`, a console page with the group's jobs and runs |
//! | `bundled-zones` | on | a time zone database in the binary; the system's database is preferred if there is one |
//! | `otel` | off | `observer::OtelCronObserver`, on the OpenTelemetry API 0.33 |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod claim;
mod commands;
#[cfg(feature = "axum")]
mod console;
mod context;
mod description;
mod error;
mod hash;
mod job;
mod job_builder;
mod ledger_client;
pub mod observer;
mod options;
mod plan;
mod queries;
mod run;
mod run_loop;
mod running;
pub mod schedule;
mod scheduler;
mod shared;
mod ticks;

pub use commands::{AddOutcome, MAX_BACKFILL_INSTANTS};
#[cfg(feature = "axum")]
pub use console::{Actor, router, router_with_actions};
pub use context::{BadPayload, MAX_PAYLOAD_BYTES, RunContext};
pub use error::{CronError, CronErrorKind};
pub use job::RunResult;
pub use job_builder::JobBuilder;
#[doc(no_inline)]
pub use lock_core::clock::UtcTime;
#[doc(no_inline)]
pub use lock_ledger::{
    Attempt, Backfill, CatchUp, MemoryLedger, OpenRun, PauseNote, PoolLimit, RunId, RunLedger, RunOutcome,
    RunState,
};
pub use options::{Jitter, Misfire, OnOrphan, Overlap, Placement, Retries};
pub use queries::{InstanceInfo, JobInfo};
pub use schedule::{
    calendar::{DstPolicy, Fold, Gap},
    error::{ScheduleError, ScheduleErrorKind},
    times::Schedule,
};
pub use scheduler::{Scheduler, SchedulerBuilder};
pub use ticks::Ticks;

/// The README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
