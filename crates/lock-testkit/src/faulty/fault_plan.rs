//! The plan that assigns faults to calls, and the random faults.

use super::{
    counts::Counts,
    fault::{Fault, Kept, Op, Phase},
    gate::Bar,
};
use crate::seed::{Seed, Stream};
use lock_core::backend::BackendErrorKind;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The state shared by a faulty backend's clones.
#[derive(Default)]
pub(super) struct FaultPlan {
    plan: Mutex<Plan>,
    pub(super) counts: Counts,
}

/// The plan for future calls.
#[derive(Default)]
pub(super) struct Plan {
    ops: [OpPlan; Op::ALL.len()],
    pub(super) dice: Option<Dice>,
}

/// The plan for one operation.
#[derive(Default)]
pub(super) struct OpPlan {
    pub(super) next: VecDeque<Fault>,
    pub(super) always: Option<Fault>,
    before: VecDeque<Bar>,
    after: VecDeque<Bar>,
}

/// The fate of one call.
pub(super) struct Fate {
    pub(super) before: Option<Bar>,
    pub(super) fault: Fault,
    pub(super) after: Option<Bar>,
}

impl FaultPlan {
    pub(super) fn edit<R>(&self, f: impl FnOnce(&mut Plan) -> R) -> R {
        f(&mut self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the fate of a call that starts now.
    pub(super) fn fate(&self, op: Op) -> Fate {
        self.edit(|plan| {
            let own = plan.of(op);
            let (before, after) = (own.before.pop_front(), own.after.pop_front());
            let fault = own.next.pop_front().or(own.always);
            let fault = fault.or_else(|| plan.dice.as_mut()?.throw(op)).unwrap_or(Fault::None);
            Fate { before, fault, after }
        })
    }
}

impl Plan {
    pub(super) fn of(&mut self, op: Op) -> &mut OpPlan {
        &mut self.ops[op as usize]
    }

    pub(super) fn clear(&mut self) {
        self.dice = None;
        for op in &mut self.ops {
            op.next.clear();
            op.always = None;
        }
    }
}

impl OpPlan {
    pub(super) fn gates(&mut self, phase: Phase) -> &mut VecDeque<Bar> {
        match phase {
            Phase::Before => &mut self.before,
            Phase::After => &mut self.after,
        }
    }
}

/// A generator of random faults.
pub(super) struct Dice {
    seed: Seed,
    stream: Stream,
    probability: f64,
}

/// The longest random delay, in ms. It exceeds the tests' operation timeouts, but not their overall
/// time limits.
const MAX_MILLIS: u64 = 3_000;

impl Dice {
    pub(super) fn new(seed: Seed, probability: f64) -> Self {
        Self { seed, stream: seed.stream(), probability }
    }

    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    fn throw(&mut self, op: Op) -> Option<Fault> {
        if !self.stream.chance(self.probability) {
            return None;
        }
        let time = Duration::from_millis(self.stream.below(MAX_MILLIS));
        Some(match self.stream.below(10) {
            0 => Fault::Delay(time),
            1 => Fault::SlowAnswer(time),
            2 => Fault::FailBefore(BackendErrorKind::Unavailable),
            3 => Fault::LoseRequest,
            4 => Fault::ApplyThenLose,
            5 => Fault::Hang,
            6 => Fault::ApplyThenHang,
            7 => Fault::Twice(Kept::First),
            8 => Fault::Twice(Kept::Second),
            // Subscriptions are sent in order on one connection, so none can overtake a late one.
            _ if matches!(op, Op::Subscribe | Op::Unsubscribe) => Fault::LoseRequest,
            _ => Fault::Late(time),
        })
    }
}
