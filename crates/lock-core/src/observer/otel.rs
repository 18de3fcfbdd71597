//! The metrics of this crate as OpenTelemetry instruments.

use super::event::{LockEvent, LockEventKind, LockObserver};
use crate::{
    machine::{GrantSource, HoldEnd, LostReason, ReleaseOutcome},
    name::LockName,
};
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter, UpDownCounter},
};
use std::{fmt, sync::Arc};

/// Bucket boundaries of all durations, in seconds: 0.5 ms to 30 s.
const SECONDS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Bucket boundaries of terms of leadership, in seconds: 1 s to a week.
const TERM_SECONDS: [f64; 9] = [1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0];

type Classifier = Arc<dyn Fn(&LockName) -> &'static str + Send + Sync>;

/// An observer that records metrics with the application's OpenTelemetry `Meter`. It uses only the
/// OpenTelemetry API; the application chooses the SDK.
///
/// | instrument | kind, unit | attributes besides `lock.backend` |
/// | --- | --- | --- |
/// | `lock.acquire.duration` | histogram, s | `lock.outcome`: acquired, contended, timeout, cancelled, error |
/// | `lock.hold.duration` | histogram, s | `lock.outcome`: released, lost |
/// | `lock.waiting` | up-down counter | |
/// | `lock.held` | up-down counter | |
/// | `lock.renewal.duration` | histogram, s | `lock.outcome`: renewed, gone, failed |
/// | `lock.lease.remaining` | histogram, s | |
/// | `lock.lost` | counter | `lock.reason`: expired, gone, max_hold, unclaimed, shut_down |
/// | `lock.release` | counter | `lock.outcome`: released, handed_on, still_held, already_expired, held_by_other, unconfirmed; `lock.release.kind`: explicit, dropped |
/// | `lock.wakeup` | counter | `lock.outcome`: push, poll, lagged, reconnected |
/// | `lock.handoff` | counter | |
/// | `lock.leading` | up-down counter: 1 on the process that leads an election | |
/// | `lock.term.duration` | histogram, s | `lock.outcome`: finished, failed, panicked, lost, resigned, stopped, cancelled |
/// | `lock.quorum.vote` | counter | `lock.node`: the name of the node, `lock.vote`: granted, busy, stale, clock, quarantine, late, extended, gone, released, failed, no_answer |
///
/// Lock names are never an attribute, since they are unbounded; [`classify`](Self::classify) adds `lock.class`. All
/// instruments are created up front, so that a dashboard finds them before the first lock is acquired.
///
/// ```
/// use lock_core::{LockFactory, MemoryBackend, observer::OtelObserver};
///
/// let meter = opentelemetry::global::meter("shop");
/// let locks = LockFactory::builder(MemoryBackend::new()).observer(OtelObserver::new(&meter)).build()?;
/// # Ok::<(), lock_core::LockError>(())
/// ```
pub struct OtelObserver {
    acquire: Histogram<f64>,
    hold: Histogram<f64>,
    waiting: UpDownCounter<i64>,
    held: UpDownCounter<i64>,
    renewal: Histogram<f64>,
    remaining: Histogram<f64>,
    lost: Counter<u64>,
    release: Counter<u64>,
    wakeup: Counter<u64>,
    handoff: Counter<u64>,
    leading: UpDownCounter<i64>,
    term: Histogram<f64>,
    vote: Counter<u64>,
    classifier: Option<Classifier>,
}

impl OtelObserver {
    /// Creates the instruments.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let make = Instruments(meter);
        Self {
            acquire: make.seconds("lock.acquire.duration", "Time from an acquire's first poll to its end"),
            hold: make.seconds("lock.hold.duration", "Time from a lock's grant to the end of its hold"),
            waiting: make.up_down_counter("lock.waiting", "Acquires that are waiting"),
            held: make.up_down_counter("lock.held", "Locks that this process holds"),
            renewal: make.seconds("lock.renewal.duration", "Time from sending a renewal to its reply"),
            remaining: make.seconds("lock.lease.remaining", "Remaining validity of a hold after a renewal"),
            lost: make.counter("lock.lost", "Holds that ended before they were released"),
            release: make.counter("lock.release", "Guards that were released"),
            wakeup: make.counter("lock.wakeup", "Wake-ups of waiters"),
            handoff: make.counter("lock.handoff", "Leases handed over inside this process"),
            leading: make.up_down_counter("lock.leading", "Elections that this process leads"),
            term: make.seconds_within(
                "lock.term.duration",
                "Time from an election to the end of its term",
                &TERM_SECONDS,
            ),
            vote: make.counter("lock.quorum.vote", "Votes of quorum nodes"),
            classifier: None,
        }
    }

    /// Adds the attribute `lock.class` with the value that `classify` returns for a name. Keep the number of values
    /// small.
    #[must_use]
    pub fn classify(mut self, classify: impl Fn(&LockName) -> &'static str + Send + Sync + 'static) -> Self {
        self.classifier = Some(Arc::new(classify));
        self
    }

    fn attributes(&self, event: &LockEvent<'_>) -> Vec<KeyValue> {
        let mut attributes = vec![KeyValue::new("lock.backend", event.backend)];
        if let Some(classify) = &self.classifier {
            attributes.push(KeyValue::new("lock.class", classify(event.name)));
        }
        attributes
    }
}

/// Creates instruments.
#[derive(Debug)]
pub struct Instruments<'a>(pub &'a Meter);

impl Instruments<'_> {
    /// Creates a histogram of durations, in seconds.
    #[must_use]
    pub fn seconds(&self, name: &'static str, about: &'static str) -> Histogram<f64> {
        self.seconds_within(name, about, &SECONDS)
    }

    /// Creates a histogram of durations, in seconds, with custom buckets.
    #[must_use]
    pub fn seconds_within(&self, name: &'static str, about: &'static str, buckets: &[f64]) -> Histogram<f64> {
        let histogram = self.0.f64_histogram(name).with_unit("s").with_description(about);
        histogram.with_boundaries(buckets.to_vec()).build()
    }

    /// Creates a counter.
    #[must_use]
    pub fn counter(&self, name: &'static str, about: &'static str) -> Counter<u64> {
        self.0.u64_counter(name).with_description(about).build()
    }

    /// Creates a counter that can also decrease.
    #[must_use]
    pub fn up_down_counter(&self, name: &'static str, about: &'static str) -> UpDownCounter<i64> {
        self.0.i64_up_down_counter(name).with_description(about).build()
    }
}

impl fmt::Debug for OtelObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelObserver").finish_non_exhaustive()
    }
}

impl LockObserver for OtelObserver {
    fn on_event(&self, event: &LockEvent<'_>) {
        let common = self.attributes(event);
        let with = |key: &'static str, value: &'static str| {
            let mut attributes = common.clone();
            attributes.push(KeyValue::new(key, value));
            attributes
        };
        match event.kind {
            LockEventKind::WaitStarted => self.waiting.add(1, &common),
            LockEventKind::WaitEnded { outcome, waited, .. } => {
                self.waiting.add(-1, &common);
                self.acquire.record(waited.as_secs_f64(), &with("lock.outcome", outcome.as_str()));
            }
            LockEventKind::Granted { source, .. } => {
                self.held.add(1, &common);
                if source == GrantSource::HandOff {
                    self.handoff.add(1, &common);
                }
            }
            LockEventKind::Ended { end, held, .. } => {
                self.held.add(-1, &common);
                let outcome = match end {
                    HoldEnd::Released => "released",
                    HoldEnd::Lost(_) => "lost",
                };
                self.hold.record(held.as_secs_f64(), &with("lock.outcome", outcome));
                if let HoldEnd::Lost(reason) = end {
                    self.lost.add(1, &with("lock.reason", lost_reason(reason)));
                }
            }
            LockEventKind::GuardReleased { outcome, kind, .. } => {
                let mut attributes = with("lock.outcome", release_outcome(outcome));
                attributes.push(KeyValue::new("lock.release.kind", kind.as_str()));
                self.release.add(1, &attributes);
            }
            LockEventKind::Renewal { outcome, took, remaining, .. } => {
                self.renewal.record(took.as_secs_f64(), &with("lock.outcome", outcome.as_str()));
                self.remaining.record(remaining.as_secs_f64(), &common);
            }
            LockEventKind::Voted { votes, .. } => {
                for vote in votes.iter() {
                    let mut attributes = with("lock.vote", vote.kind.as_str());
                    attributes.push(KeyValue::new("lock.node", vote.node.clone()));
                    self.vote.add(1, &attributes);
                }
            }
            LockEventKind::WakeUp { source, .. } => {
                self.wakeup.add(1, &with("lock.outcome", source.as_str()))
            }
            LockEventKind::TermStarted { .. } => self.leading.add(1, &common),
            LockEventKind::TermEnded { end, led, .. } => {
                self.leading.add(-1, &common);
                self.term.record(led.as_secs_f64(), &with("lock.outcome", end.as_str()));
            }
            LockEventKind::RenewalFailed { .. } | LockEventKind::SelfDeadlock { .. } => {}
        }
    }
}

fn lost_reason(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "expired",
        LostReason::Gone => "gone",
        LostReason::MaxHold => "max_hold",
        LostReason::Unclaimed => "unclaimed",
        LostReason::ShutDown => "shut_down",
    }
}

fn release_outcome(outcome: Option<ReleaseOutcome>) -> &'static str {
    match outcome {
        Some(ReleaseOutcome::Released) => "released",
        Some(ReleaseOutcome::HandedOn) => "handed_on",
        Some(ReleaseOutcome::StillHeld { .. }) => "still_held",
        Some(ReleaseOutcome::AlreadyExpired) => "already_expired",
        Some(ReleaseOutcome::HeldByOther) => "held_by_other",
        None => "unconfirmed",
    }
}
