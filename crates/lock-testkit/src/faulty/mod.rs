//! A backend with injected faults: calls hang, lose replies, arrive late or twice, or wait at a gate.

mod backend;
mod call;
mod counts;
mod fault;
mod fault_plan;
mod gate;
mod ledger;
mod pipeline;

#[cfg(test)]
mod tests;

pub use fault::{Fault, Kept, Op, Phase};
pub use gate::Gate;
pub use ledger::FaultyLedger;

use crate::seed::Seed;
use fault_plan::FaultPlan;
use lock_core::Store;
use lock_ledger::RunLedger;
use std::{fmt, sync::Arc};

/// A backend with injected faults. Clones share the plan: pass one to a factory and keep one to control it.
///
/// A call to an operation listed in [`Op`] gets the oldest fault [set for the next
/// call](FaultyBackend::next), otherwise the [permanent](FaultyBackend::always) fault, otherwise a
/// [random](FaultyBackend::random) one. Listeners, `inspect`, `force_release`, `server_now` and
/// `capabilities` are forwarded without faults.
///
/// Dropping a call ends it at its current stage. An operation that has not been applied is not
/// applied later, except with [`Fault::Late`].
#[derive(Clone)]
pub struct FaultyBackend {
    inner: Store,
    plan: Arc<FaultPlan>,
}

impl FaultyBackend {
    /// Wraps `inner`, initially without faults.
    #[must_use]
    pub fn new(inner: impl Into<Store>) -> Self {
        Self { inner: inner.into(), plan: Arc::default() }
    }

    /// Wraps a run ledger, which shares this backend's fault plan.
    #[must_use]
    pub fn ledger(&self, inner: impl RunLedger) -> FaultyLedger {
        FaultyLedger { inner: Arc::new(inner), plan: self.plan.clone() }
    }

    /// Sets the fault for the next call to `op`. Repeated calls queue their faults, one per call,
    /// oldest first.
    pub fn next(&self, op: Op, fault: Fault) {
        self.plan.edit(|plan| plan.of(op).next.push_back(fault));
    }

    /// Sets the faults for the next calls to `op`, one per call.
    pub fn script(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.plan.edit(|plan| plan.of(op).next.extend(faults));
    }

    /// Sets the fault for every call to `op` until [`heal`](FaultyBackend::heal), unless one is set
    /// for the next call.
    pub fn always(&self, op: Op, fault: Fault) {
        self.plan.edit(|plan| plan.of(op).always = Some(fault));
    }

    /// Sets this fault for every call to every operation until [`heal`](FaultyBackend::heal).
    pub fn always_all(&self, fault: Fault) {
        Op::ALL.into_iter().for_each(|op| self.always(op, fault));
    }

    /// Injects a random fault into each future call with the given probability, from 0 to 1. The
    /// seed determines the faults: the same calls in the same order get the same faults.
    ///
    /// [`Fault::Refuse`], which clients treat as final, and [`Fault::ApplyThenPanic`] are never drawn.
    /// Subscriptions never get [`Fault::Late`], because stores keep them in order.
    pub fn random(&self, seed: impl Into<Seed>, probability: f64) {
        let seed = seed.into();
        self.plan.edit(|plan| plan.dice = Some(fault_plan::Dice::new(seed, probability)));
    }

    /// Returns the seed of the random faults, if they are enabled.
    #[must_use]
    pub fn seed(&self) -> Option<Seed> {
        self.plan.edit(|plan| plan.dice.as_ref().map(fault_plan::Dice::seed))
    }

    /// Removes all faults. Hanging calls keep hanging, and gates stay closed.
    pub fn heal(&self) {
        self.plan.edit(fault_plan::Plan::clear);
    }

    /// Sets a gate at which the next call to `op` stops. Repeated calls queue their gates, one per
    /// call, oldest first.
    #[must_use = "a gate opens when it is dropped"]
    pub fn gate(&self, op: Op, phase: Phase) -> Gate {
        let gate = Gate::new();
        self.plan.edit(|plan| plan.of(op).gates(phase).push_back(gate.bar()));
        gate
    }

    /// Returns the number of calls to `op` that have started.
    #[must_use]
    pub fn calls(&self, op: Op) -> usize {
        self.plan.counts.calls(op)
    }

    /// Returns the number of times `op` reached the inner backend.
    #[must_use]
    pub fn applied(&self, op: Op) -> usize {
        self.plan.counts.applied(op)
    }

    /// Returns the number of calls in progress across all operations.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        Op::ALL.into_iter().map(|op| self.plan.counts.in_flight(op)).sum()
    }

    /// Returns the highest number of concurrent calls to `op`.
    #[must_use]
    pub fn most_in_flight(&self, op: Op) -> usize {
        self.plan.counts.most(op)
    }
}

impl fmt::Debug for FaultyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyBackend")
            .field("inner", &self.inner)
            .field("seed", &self.seed())
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
