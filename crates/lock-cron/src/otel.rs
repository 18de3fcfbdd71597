//! The metrics of the scheduler as OpenTelemetry instruments.

use crate::{
    observe::{CronEvent, CronObserver},
    plan::SkipReason,
};
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter},
};
use std::fmt;

/// Bucket boundaries of lags and durations, in seconds: 1 ms to an hour.
const SECONDS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 600.0, 3600.0];

/// Records metrics on a `Meter` of the application; only the OpenTelemetry API is used, the SDK is yours.
///
/// | instrument | kind, unit | attributes beside `cron.group` |
/// | --- | --- | --- |
/// | `cron.leader` | up-down counter: 1 on the node that leads | |
/// | `cron.start` | counter | `cron.job` |
/// | `cron.start.lag` | histogram, s: how late a run was claimed that is no catch-up run | |
/// | `cron.run.duration` | histogram, s | `cron.job`, `cron.outcome` |
/// | `cron.skipped` | counter | `cron.job`, `cron.reason`: overlap, missed, queue, expired, decided_elsewhere, data_loss |
/// | `cron.orphan` | counter | `cron.job`, `cron.again`: whether it is run again |
/// | `cron.unowned` | counter: jobs that no node that leads has registered | `cron.job` |
/// | `cron.ahead` | counter: minutes in which a watermark was in the future | `cron.job` |
/// | `cron.data_lost` | counter: jobs whose data the store lost | `cron.job` |
/// | `cron.store.failure` | counter | |
/// | `cron.clock.offset` | gauge, s: this node's clock minus the server's | |
///
/// Job names are few, and an attribute.
pub struct OtelCronObserver {
    leader: UpDownCounter<i64>,
    start: Counter<u64>,
    lag: Histogram<f64>,
    duration: Histogram<f64>,
    skipped: Counter<u64>,
    orphan: Counter<u64>,
    unowned: Counter<u64>,
    ahead: Counter<u64>,
    data_lost: Counter<u64>,
    failure: Counter<u64>,
    offset: Gauge<f64>,
}

impl OtelCronObserver {
    /// Makes the instruments.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, about: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(about);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let count =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        Self {
            leader: meter
                .i64_up_down_counter("cron.leader")
                .with_description("Groups that this node leads")
                .build(),
            start: count("cron.start", "Bodies that began"),
            lag: seconds("cron.start.lag", "From the instant of a run to its claim"),
            duration: seconds("cron.run.duration", "From the beginning of a body to its end"),
            skipped: count("cron.skipped", "Runs that will not be"),
            orphan: count("cron.orphan", "Runs whose node died, or lost them"),
            unowned: count("cron.unowned", "Jobs that no node that leads has registered"),
            ahead: count("cron.ahead", "Minutes in which the watermark of a job was in the future"),
            data_lost: count("cron.data_lost", "Jobs whose data the store lost"),
            failure: count("cron.store.failure", "Questions that the store did not answer"),
            offset: meter
                .f64_gauge("cron.clock.offset")
                .with_unit("s")
                .with_description("The clock of this node minus that of the server")
                .build(),
        }
    }
}

impl fmt::Debug for OtelCronObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelCronObserver").finish_non_exhaustive()
    }
}

impl CronObserver for OtelCronObserver {
    fn observe(&self, group: &str, event: &CronEvent<'_>) {
        let group = [KeyValue::new("cron.group", group.to_owned())];
        let with = |job: &lock_core::LockName, key: &'static str, value: &'static str| {
            let [group] = group.clone();
            [group, KeyValue::new("cron.job", job.to_string()), KeyValue::new(key, value)]
        };
        let of_job = |job: &lock_core::LockName| {
            let [group] = group.clone();
            [group, KeyValue::new("cron.job", job.to_string())]
        };
        match event {
            CronEvent::Leading { .. } => self.leader.add(1, &group),
            CronEvent::Resigned => self.leader.add(-1, &group),
            CronEvent::Started { job, lag, attempt, catch_up, .. } => {
                self.start.add(1, &of_job(job));
                if *attempt == 1 && !catch_up {
                    self.lag.record(lag.as_secs_f64(), &group);
                }
            }
            CronEvent::Skipped { job, reason, count } => {
                self.skipped.add((*count).into(), &with(job, "cron.reason", reason_word(*reason)));
            }
            CronEvent::Ended { job, outcome, took, .. } => {
                self.duration.record(took.as_secs_f64(), &with(job, "cron.outcome", outcome.as_str()));
            }
            CronEvent::Orphan { job, again } => {
                self.orphan.add(1, &with(job, "cron.again", if *again { "yes" } else { "no" }));
            }
            CronEvent::Unowned { job } => self.unowned.add(1, &of_job(job)),
            CronEvent::Ahead { job, .. } => self.ahead.add(1, &of_job(job)),
            CronEvent::DataLost { job } => self.data_lost.add(1, &of_job(job)),
            CronEvent::StoreFailed => self.failure.add(1, &group),
            CronEvent::ClockOffset { seconds } => self.offset.record(*seconds, &group),
        }
    }
}

fn reason_word(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Overlap => "overlap",
        SkipReason::Missed => "missed",
        SkipReason::Queue => "queue",
        SkipReason::Expired => "expired",
        SkipReason::DecidedElsewhere => "decided_elsewhere",
        SkipReason::DataLoss => "data_loss",
    }
}
