//! A backend that fails on purpose: hangs, loses replies, comes late, comes twice, or waits at a gate.

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

/// Any backend, with faults. Clones are the same one: give one to a factory and keep one to steer it.
///
/// A call of an operation with faults (see [`Op`]) takes, in this order: the oldest fault [set for the
/// next](FaultyBackend::next), or the [permanent](FaultyBackend::always) one, or a [random](FaultyBackend::random)
/// one, or none. Everything else is passed on: listeners, `inspect`, `force_release`, `server_now`, `capabilities`.
///
/// Dropping a call ends it where it stands: what was not applied is not applied later, except by
/// [`Fault::Late`], whose point that is.
#[derive(Clone)]
pub struct FaultyBackend {
    inner: Store,
    plan: Arc<FaultPlan>,
}

impl FaultyBackend {
    /// A healthy one over `inner`.
    #[must_use]
    pub fn new(inner: impl Into<Store>) -> Self {
        Self { inner: inner.into(), plan: Arc::default() }
    }

    /// The run ledger `inner`, with the faults that are planned here.
    #[must_use]
    pub fn ledger(&self, inner: impl RunLedger) -> FaultyLedger {
        FaultyLedger { inner: Arc::new(inner), plan: self.plan.clone() }
    }

    /// The next call of `op` has this fault; several are taken one call each, oldest first.
    pub fn next(&self, op: Op, fault: Fault) {
        self.plan.edit(|plan| plan.of(op).next.push_back(fault));
    }

    /// The next calls of `op` have these faults, one each.
    pub fn script(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.plan.edit(|plan| plan.of(op).next.extend(faults));
    }

    /// Every call of `op` has this fault until [`heal`](FaultyBackend::heal), unless one is set for the next.
    pub fn always(&self, op: Op, fault: Fault) {
        self.plan.edit(|plan| plan.of(op).always = Some(fault));
    }

    /// Every operation has this fault until [`heal`](FaultyBackend::heal).
    pub fn always_all(&self, fault: Fault) {
        Op::ALL.into_iter().for_each(|op| self.always(op, fault));
    }

    /// From now on each call has, with this probability from 0 to 1, a fault drawn from the seed: all kinds but
    /// [`Fault::Refuse`], which a client rightly takes as final, and [`Fault::Late`] for subscriptions, which
    /// stores keep in order. The same calls in the same order get the same faults.
    pub fn random(&self, seed: impl Into<Seed>, probability: f64) {
        let seed = seed.into();
        self.plan.edit(|plan| plan.dice = Some(fault_plan::Dice::new(seed, probability)));
    }

    /// The seed of the random faults, while there are any.
    #[must_use]
    pub fn seed(&self) -> Option<Seed> {
        self.plan.edit(|plan| plan.dice.as_ref().map(fault_plan::Dice::seed))
    }

    /// No more faults of any kind. Calls that hang go on hanging, and gates stay where they are.
    pub fn heal(&self) {
        self.plan.edit(fault_plan::Plan::clear);
    }

    /// Puts up a gate at which the next call of `op` stops; several are taken one call each, oldest first.
    #[must_use = "a gate opens when it is dropped"]
    pub fn gate(&self, op: Op, phase: Phase) -> Gate {
        let gate = Gate::new();
        self.plan.edit(|plan| plan.of(op).gates(phase).push_back(gate.bar()));
        gate
    }

    /// How many calls of `op` were begun.
    #[must_use]
    pub fn calls(&self, op: Op) -> usize {
        self.plan.counts.calls(op)
    }

    /// How often `op` reached the backend inside.
    #[must_use]
    pub fn applied(&self, op: Op) -> usize {
        self.plan.counts.applied(op)
    }

    /// How many calls of all operations are under way: neither answered nor dropped.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        Op::ALL.into_iter().map(|op| self.plan.counts.in_flight(op)).sum()
    }

    /// How many calls of `op` were under way at once, at most.
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
