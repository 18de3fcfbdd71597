//! The metrics of this crate as OpenTelemetry instruments.

use super::{CronEvent, CronObserver};
use crate::job::kind_of;
use lock_core::{__private::Instruments, LockName};
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter},
};
use std::fmt;

/// Bucket boundaries for lags and durations, in seconds: 1 ms to an hour.
const SECONDS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 600.0, 3600.0];

type Classifier = Box<dyn Fn(&LockName) -> String + Send + Sync>;

/// An observer that records metrics on a `Meter` of the application. Uses only the OpenTelemetry
/// API; the application chooses the SDK.
///
/// | instrument | kind, unit | attributes besides `cron.group` |
/// | --- | --- | --- |
/// | `cron.leader` | up-down counter: 1 on the node that leads, 0 on the others | `cron.jobs`: the hash of the node's jobs and kinds. Nodes with the same hash elect one leader |
/// | `cron.start` | counter | `cron.job` |
/// | `cron.start.lag` | histogram, s: from a run's scheduled time to its claim, excluding catch-up runs | |
/// | `cron.run.duration` | histogram, s | `cron.job`, `cron.outcome` |
/// | `cron.skipped` | counter | `cron.job`, `cron.reason`: overlap, missed, queue, expired, no_capacity, decided_elsewhere, data_loss |
/// | `cron.orphan` | counter | `cron.job`, `cron.retried`: yes, no |
/// | `cron.unowned` | counter: jobs that no leader has registered | `cron.job` |
/// | `cron.ahead` | counter: minutes in which a watermark was in the future | `cron.job` |
/// | `cron.overdue` | up-down counter: 1 for each overdue job, on the node that leads | `cron.job` |
/// | `cron.data_lost` | counter: losses of data in the store | `cron.job`, unless the data of the whole group was lost |
/// | `cron.store.failure` | counter | |
/// | `cron.clock.offset` | gauge, s: this node's clock minus the server's | |
///
/// `cron.job` is the name of a job in code, and `kind/*` for all instances of a kind, since their number is unbounded.
/// [`classify`](Self::classify) replaces it.
///
/// ```
/// use lock_core::{LockFactory, MemoryBackend};
/// use lock_cron::{MemoryLedger, Scheduler, observer::OtelCronObserver};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let meter = opentelemetry::global::meter("shop");
/// let locks = LockFactory::new(MemoryBackend::new());
/// let cron = Scheduler::builder(locks, MemoryLedger::new()).observer(OtelCronObserver::new(&meter)).build()?;
/// # let _ = cron;
/// # Ok(()) }
/// ```
pub struct OtelCronObserver {
    classifier: Classifier,
    leader: UpDownCounter<i64>,
    start: Counter<u64>,
    lag: Histogram<f64>,
    duration: Histogram<f64>,
    skipped: Counter<u64>,
    orphan: Counter<u64>,
    unowned: Counter<u64>,
    ahead: Counter<u64>,
    overdue: UpDownCounter<i64>,
    data_lost: Counter<u64>,
    failure: Counter<u64>,
    offset: Gauge<f64>,
}

impl OtelCronObserver {
    /// Creates the instruments on this meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let make = Instruments(meter);
        Self {
            classifier: Box::new(name_or_kind),
            leader: make.up_down_counter("cron.leader", "Groups that this node leads"),
            start: make.counter("cron.start", "Bodies that started"),
            lag: make.seconds_within("cron.start.lag", "From a run's scheduled time to its claim", &SECONDS),
            duration: make.seconds_within(
                "cron.run.duration",
                "From the start of a body to its end",
                &SECONDS,
            ),
            skipped: make.counter("cron.skipped", "Runs that were skipped"),
            orphan: make.counter("cron.orphan", "Runs whose node died or lost its lease"),
            unowned: make.counter("cron.unowned", "Jobs that no leader has registered"),
            ahead: make.counter("cron.ahead", "Minutes in which a job's watermark was in the future"),
            overdue: make
                .up_down_counter("cron.overdue", "Jobs without a success for longer than their alert time"),
            data_lost: make.counter("cron.data_lost", "Losses of data in the store"),
            failure: make.counter("cron.store.failure", "Failed requests to the store"),
            offset: meter
                .f64_gauge("cron.clock.offset")
                .with_unit("s")
                .with_description("This node's clock minus the server's clock")
                .build(),
        }
    }

    /// Sets the attribute `cron.job` to the value that `classify` returns for the name of a job or an instance. Keep
    /// the number of values small.
    ///
    /// ```
    /// # let meter = opentelemetry::global::meter("shop");
    /// use lock_cron::observer::OtelCronObserver;
    ///
    /// // A series for each tenant, of which there are few.
    /// let observer = OtelCronObserver::new(&meter).classify(|job| job.to_string());
    /// # let _ = observer;
    /// ```
    #[must_use]
    pub fn classify(mut self, classify: impl Fn(&LockName) -> String + Send + Sync + 'static) -> Self {
        self.classifier = Box::new(classify);
        self
    }
}

/// Returns the name of a job in code, or the kind of an instance.
fn name_or_kind(job: &LockName) -> String {
    kind_of(job).map_or_else(|| job.to_string(), |kind| format!("{kind}/*"))
}

impl fmt::Debug for OtelCronObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelCronObserver").finish_non_exhaustive()
    }
}

impl CronObserver for OtelCronObserver {
    fn on_event(&self, event: &CronEvent<'_>) {
        let group = [KeyValue::new("cron.group", event.group().to_owned())];
        let of_job = |job: &LockName| {
            let [group] = group.clone();
            [group, KeyValue::new("cron.job", (self.classifier)(job))]
        };
        let with = |job: &LockName, key: &'static str, value: &'static str| {
            let [group, job] = of_job(job);
            [group, job, KeyValue::new(key, value)]
        };
        let lead = |jobs: u64, by| {
            let [group] = group.clone();
            self.leader.add(by, &[group, KeyValue::new("cron.jobs", format!("{jobs:016x}"))]);
        };
        match *event {
            // The series exists on each node, so that a group without a leader is not a group without series.
            CronEvent::Joined { jobs, .. } => lead(jobs, 0),
            CronEvent::Elected { jobs, .. } => lead(jobs, 1),
            CronEvent::Resigned { jobs, .. } => lead(jobs, -1),
            CronEvent::Started { job, lag, attempt, catch_up, .. } => {
                self.start.add(1, &of_job(job));
                if attempt == 1 && !catch_up {
                    self.lag.record(lag.as_secs_f64(), &group);
                }
            }
            CronEvent::Skipped { job, reason, count, .. } => {
                self.skipped.add(count.into(), &with(job, "cron.reason", reason.as_str()));
            }
            CronEvent::Ended { job, outcome, took, .. } => {
                self.duration.record(took.as_secs_f64(), &with(job, "cron.outcome", outcome.as_str()));
            }
            CronEvent::Orphaned { job, retried, .. } => {
                self.orphan.add(1, &with(job, "cron.retried", if retried { "yes" } else { "no" }));
            }
            CronEvent::Unowned { job, .. } => self.unowned.add(1, &of_job(job)),
            CronEvent::WatermarkAhead { job, .. } => self.ahead.add(1, &of_job(job)),
            CronEvent::Overdue { job, .. } => self.overdue.add(1, &of_job(job)),
            CronEvent::OverdueEnded { job, .. } => self.overdue.add(-1, &of_job(job)),
            CronEvent::DataLost { job: Some(job), .. } => self.data_lost.add(1, &of_job(job)),
            CronEvent::DataLost { job: None, .. } => self.data_lost.add(1, &group),
            // The gauge `cron.clock.offset` shows it.
            CronEvent::ClockChanged { .. } => {}
            CronEvent::StoreFailed { .. } => self.failure.add(1, &group),
            CronEvent::ClockCompared { offset, .. } => self.offset.record(offset, &group),
        }
    }
}
