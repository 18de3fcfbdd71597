//! Events of a scheduler, for custom observers, OpenTelemetry metrics, and `tracing` events and
//! spans.
//!
//! Each attempt of a run has a span `cron.run`, in which its body runs:
//!
//! | field | value |
//! | --- | --- |
//! | `cron.group` | the scheduler's group |
//! | `cron.job` | the name of the job |
//! | `cron.run` | the [id](crate::RunContext::id) of the run |
//! | `cron.attempt` | the attempt number, starting at 1 |
//! | `cron.token` | the attempt's fencing token |
//! | `cron.outcome` | the metric value of the [`RunOutcome`](crate::RunOutcome), once it is known |

mod event;
mod observers;
#[cfg(feature = "otel")]
mod otel;
mod skip_reason;
mod trace;

pub use event::{CronEvent, CronObserver};
#[cfg(feature = "otel")]
pub use otel::OtelCronObserver;
pub use skip_reason::SkipReason;

pub(crate) use observers::Observers;
pub(crate) use trace::attempt_span;
