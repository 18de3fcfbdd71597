//! Jobs that run at their times once in a fleet.
//!
//! Every node registers its jobs and runs its [`Scheduler`]; each run is started once, on one node of all. A [`Schedule`] says
//! when, and means the same instants on every node.
//!
//! ```no_run
//! use lock_core::{LockFactory, MemoryBackend};
//! use lock_cron::{MemoryLedger, Schedule, Scheduler};
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In production: `let redis = RedisBackend::connect(url).await?` of lock-fred in the place of both, the same Redis on
//! // every node.
//! let locks = LockFactory::new(MemoryBackend::new());
//!
//! let cron = Scheduler::builder(locks, MemoryLedger::new()).group("billing").build()?;
//! cron.job("invoices", Schedule::cron("0 2 * * *")?.in_tz("Europe/Berlin")?, |run| async move {
//!     println!("{}: write the invoices with token {}", run.scheduled_at(), run.fencing_token());
//!     Ok(())
//! })
//! .register()?;
//! cron.run_until(shutdown()).await?;
//! # Ok(()) }
//!
//! /// Ctrl-C, or SIGTERM, which is what Kubernetes and systemd send.
//! # #[cfg(unix)]
//! async fn shutdown() {
//!     use tokio::signal::{ctrl_c, unix};
//!     let mut terminate = unix::signal(unix::SignalKind::terminate()).expect("signals can be listened to");
//!     tokio::select! {
//!         _ = ctrl_c() => {}
//!         _ = terminate.recv() => {}
//!     }
//! }
//! # #[cfg(not(unix))] async fn shutdown() {}
//! ```
//!
//! # What is promised
//! - Each instant is *started* once in the fleet, as long as the store keeps its data, and never before its time by the
//!   server's clock. A leader is elected, but for efficiency alone: two at once are harmless.
//! - Once in *effect* only if what the run writes to checks its [token](RunContext::fencing_token) or its
//!   [id](RunContext::id).
//! - After the death of the leader another goes on within the [leadership lease](SchedulerBuilder::leadership_lease) (10 s) and
//!   a second; after a shutdown by the signal, at once, and runs whose body had not begun go on there.
//! - A changed schedule, a new job and a job that comes back run from then on, never for the past.
//! - A run whose node dies is over, unless [`on_orphan`](JobBuilder::on_orphan) says otherwise; one that was missed is made up
//!   for once ([`misfire`](JobBuilder::misfire)), one that is due while another is open is skipped
//!   ([`overlap`](JobBuilder::overlap)).
//!
//! # Features
//! | feature | default | gives |
//! | --- | --- | --- |
//! | `axum` | off | `router`, the jobs and their history as JSON and as a page |
//! | `bundled-zones` | on | a copy of the time zone database in the binary, for machines without one; that of the system is preferred |
//! | `otel` | off | `observer::OtelCronObserver`, on the OpenTelemetry API 0.33 |

mod backoff;
mod body;
mod builder;
mod context;
mod drive;
mod error;
mod hash;
mod hold;
mod job;
mod node;
pub mod observer;
mod options;
mod orders;
mod plan;
mod run;
mod running;
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
pub use lock_ledger::{Attempt, CatchUp, MemoryLedger, OpenRun, RunId, RunLedger, RunOutcome, RunState};
pub use options::{Misfire, OnOrphan, Overlap, Retries, Scope, StartJitter};
pub use schedule::{
    DstPolicy, Field, Fingerprint, Fold, Gap, MAX_TEXT_BYTES, Runs, Schedule, ScheduleError,
    ScheduleErrorKind,
};
pub use scheduler::{JobView, Scheduler};
pub use time::UtcTime;
#[cfg(feature = "axum")]
pub use web::router;
