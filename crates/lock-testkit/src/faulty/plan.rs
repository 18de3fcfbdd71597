//! The plan that assigns faults to calls, the random faults, and the execution of a call: gate, fault, gate.

use super::fault::{Bar, Fault, Kept, Op, Phase};
use crate::seed::{Seed, Stream};
use lock_core::backend::{Applied, BackendError, BackendErrorKind};
use std::{
    collections::VecDeque,
    future::{Future, pending},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::sleep;

/// The longest random delay, in ms. It exceeds the tests' operation timeouts, but not their overall
/// time limits.
const MAX_MILLIS: u64 = 3_000;

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
struct Fate {
    before: Option<Bar>,
    fault: Fault,
    after: Option<Bar>,
}

impl FaultPlan {
    pub(super) fn edit<R>(&self, f: impl FnOnce(&mut Plan) -> R) -> R {
        f(&mut self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the fate of a call that starts now.
    fn fate(&self, op: Op) -> Fate {
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
struct UnderWay<'a>(&'a OpCounts);

impl Counts {
    fn begin(&self, op: Op) -> UnderWay<'_> {
        let counts = self.of(op);
        counts.calls.fetch_add(1, SeqCst);
        let now = counts.in_flight.fetch_add(1, SeqCst) + 1;
        counts.most.fetch_max(now, SeqCst);
        UnderWay(counts)
    }

    fn apply(&self, op: Op) {
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

/// Executes a call. `apply` sends the request to the inner backend and is called as often as the fault
/// requires. `fail` turns an error into a reply.
pub(super) async fn carry_out<T, F>(
    plan: &Arc<FaultPlan>,
    op: Op,
    apply: impl Fn() -> F + Send,
    fail: impl Fn(BackendError) -> T + Send,
) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let _under_way = plan.counts.begin(op);
    let fate = plan.fate(op);
    if let Some(gate) = &fate.before {
        gate.pass().await;
    }
    let once = || {
        plan.counts.apply(op);
        apply()
    };
    let lost = |message| fail(BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message));
    let refused = |kind, message| fail(BackendError::new(kind, Applied::No, message));
    let answer = match fate.fault {
        Fault::None => once().await,
        Fault::Delay(time) => {
            sleep(time).await;
            once().await
        }
        Fault::SlowAnswer(time) => {
            let answer = once().await;
            sleep(time).await;
            answer
        }
        Fault::FailBefore(kind) => refused(kind, "planned fault: the request was not sent"),
        Fault::Refuse(kind) => refused(kind, "planned fault: the request was refused"),
        Fault::LoseRequest => lost("planned fault: the request was lost"),
        Fault::ApplyThenLose => {
            once().await;
            lost("planned fault: the reply was lost")
        }
        Fault::Hang => pending().await,
        Fault::ApplyThenHang => {
            once().await;
            pending().await
        }
        Fault::ApplyThenPanic => {
            once().await;
            panic!("planned fault: the backend panicked")
        }
        Fault::Twice(kept) => {
            let first = once().await;
            let second = once().await;
            match kept {
                Kept::First => first,
                Kept::Second => second,
            }
        }
        Fault::Late(time) => {
            let (plan, call) = (plan.clone(), apply());
            tokio::spawn(async move {
                sleep(time).await;
                plan.counts.apply(op);
                call.await
            });
            pending().await
        }
    };
    if let Some(gate) = &fate.after {
        gate.pass().await;
    }
    answer
}
