//! Locks that stay held.

use super::Effort;
use crate::{
    contestants::Contestant,
    metric::Metric,
    runner::{Case, Measurement},
};
use std::time::Duration;

/// Time between two renewals, a third of the default lease.
const RENEWED_EVERY: Duration = Duration::from_secs(10);

pub(super) fn waiters(effort: Effort) -> Vec<Case> {
    let count = effort.waiters();
    vec![Case {
        series: None,
        label: format!("{count} waiters"),
        measurement: Measurement::Waiters {
            count,
            window: effort.waiting(),
            settle: effort.waiting().min(Duration::from_secs(1)),
        },
        contestants: [effort.clients(), &[Contestant::Hash]].concat(),
        rounds: 1,
        columns: vec![
            Metric::CommandRate,
            Metric::CommandRateBefore,
            Metric::HeapBytes,
            Metric::ResidentBytes,
        ],
        ratios: Vec::new(),
    }]
}

pub(super) fn held(effort: Effort) -> Vec<Case> {
    let (count, renewals) = (effort.held_locks(), effort.renewals());
    vec![Case {
        series: None,
        label: format!("{count} locks, {renewals} periods"),
        measurement: Measurement::Held { count, window: RENEWED_EVERY * renewals, renewals },
        contestants: effort.clients().to_vec(),
        rounds: 1,
        columns: vec![
            Metric::HeapBytes,
            Metric::ResidentBytes,
            Metric::RenewalClientCpu,
            Metric::RenewalServerCpu,
        ],
        ratios: Vec::new(),
    }]
}
