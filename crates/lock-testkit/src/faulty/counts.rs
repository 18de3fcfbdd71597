//! Counters for calls started, applied and in progress.

use super::fault::Op;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[derive(Default)]
pub(super) struct Counts {
    ops: [OpCounts; Op::ALL.len()],
}

#[derive(Default)]
struct OpCounts {
    calls: AtomicUsize,
    applied: AtomicUsize,
    in_flight: AtomicUsize,
    most: AtomicUsize,
}

/// A call in progress. Dropping it ends the call.
pub(super) struct UnderWay<'a>(&'a OpCounts);

impl Counts {
    pub(super) fn begin(&self, op: Op) -> UnderWay<'_> {
        let counts = self.of(op);
        counts.calls.fetch_add(1, SeqCst);
        let now = counts.in_flight.fetch_add(1, SeqCst) + 1;
        counts.most.fetch_max(now, SeqCst);
        UnderWay(counts)
    }

    pub(super) fn apply(&self, op: Op) {
        self.of(op).applied.fetch_add(1, SeqCst);
    }

    pub(super) fn calls(&self, op: Op) -> usize {
        self.of(op).calls.load(SeqCst)
    }

    pub(super) fn applied(&self, op: Op) -> usize {
        self.of(op).applied.load(SeqCst)
    }

    pub(super) fn in_flight(&self, op: Op) -> usize {
        self.of(op).in_flight.load(SeqCst)
    }

    pub(super) fn most(&self, op: Op) -> usize {
        self.of(op).most.load(SeqCst)
    }

    fn of(&self, op: Op) -> &OpCounts {
        &self.ops[op as usize]
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, SeqCst);
    }
}
