//! What is left for the workers, from any thread, inside or outside a runtime.

use super::{call::Call, cell::Cell, io::Op};
use crate::{
    machine::Event,
    sync::{Id, Mutex, lock},
};
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Inbox {
    letters: Mutex<Letters>,
    /// One for each worker: whoever comes first takes the letters.
    bells: Mutex<Vec<Arc<Notify>>>,
}

#[derive(Debug, Default)]
pub(super) struct Letters {
    /// Cells whose guards were dropped. There is room for every guard, and nothing else takes it.
    pub(super) dropped: Vec<Arc<Cell>>,
    /// Cells that were woken.
    pub(super) woken: Vec<Arc<Cell>>,
    /// Renewals, to be sent together.
    pub(super) renewals: Vec<(Arc<Cell>, Op)>,
    /// Calls to be started here, because whoever wanted them was being dropped.
    pub(super) ops: Vec<(Arc<Cell>, Op)>,
    /// Calls that were polled once and are pending.
    pub(super) calls: Vec<Call>,
    /// Answers that a dead worker could not deliver.
    pub(super) answers: Vec<(Arc<Cell>, Event)>,
    guards: usize,
}

impl Inbox {
    /// Makes room for the drop of one more guard, which must not allocate.
    pub(super) fn guard_made(&self) {
        let mut letters = lock(&self.letters);
        letters.guards += 1;
        let room = letters.guards;
        letters.dropped.reserve(room);
    }

    pub(super) fn guard_gone(&self) {
        let mut letters = lock(&self.letters);
        letters.guards = letters.guards.saturating_sub(1);
    }

    pub(super) fn put(&self, f: impl FnOnce(&mut Letters)) {
        f(&mut lock(&self.letters));
        self.ring();
    }

    pub(super) fn ring(&self) {
        lock(&self.bells).iter().for_each(|bell| bell.notify_one());
    }

    /// A bell for one more worker.
    pub(super) fn hang_bell(&self) -> Arc<Notify> {
        let bell = Arc::new(Notify::new());
        lock(&self.bells).push(bell.clone());
        bell
    }

    pub(super) fn take_bell(&self, bell: &Arc<Notify>) {
        lock(&self.bells).retain(|other| !Arc::ptr_eq(other, bell));
    }

    /// Takes the renewals, for a timekeeper.
    pub(super) fn take_renewals(&self) -> Vec<(Arc<Cell>, Op)> {
        std::mem::take(&mut lock(&self.letters).renewals)
    }

    /// Leaves a renewal for a timekeeper, whose alarm is the caller's to set.
    pub(super) fn put_renewal(&self, cell: &Arc<Cell>, op: Op) {
        lock(&self.letters).renewals.push((cell.clone(), op));
    }

    /// Takes everything for the worker of this runtime; calls of other runtimes and the room made for guards stay.
    pub(super) fn take(&self, runtime: Id) -> Letters {
        let mut letters = lock(&self.letters);
        let ours = |call: &mut Call| call.runtime.is_none_or(|id| id == runtime);
        Letters {
            dropped: letters.dropped.drain(..).collect(),
            woken: std::mem::take(&mut letters.woken),
            renewals: Vec::new(),
            ops: std::mem::take(&mut letters.ops),
            calls: letters.calls.extract_if(.., ours).collect(),
            answers: std::mem::take(&mut letters.answers),
            guards: 0,
        }
    }

    /// Turns what nobody will carry any more into answers that never came, for a later worker if there is one.
    /// (A call that stayed here would keep its driver, which keeps this inbox.)
    pub(super) fn give_up_calls(&self) {
        let (calls, ops) = {
            let mut letters = lock(&self.letters);
            let renewals = std::mem::take(&mut letters.renewals);
            let ops = std::mem::take(&mut letters.ops).into_iter().chain(renewals);
            (std::mem::take(&mut letters.calls), ops)
        };
        drop(calls);
        self.put(|letters| letters.answers.extend(ops.map(|(cell, op)| (cell, op.unknown()))));
    }

    /// The calls of a runtime that is gone cannot go on elsewhere.
    pub(super) fn give_up_calls_of(&self, runtime: Id) {
        let calls: Vec<_> =
            lock(&self.letters).calls.extract_if(.., |call| call.runtime == Some(runtime)).collect();
        drop(calls);
    }

    pub(super) fn is_empty(&self) -> bool {
        let letters = lock(&self.letters);
        letters.dropped.is_empty()
            && letters.woken.is_empty()
            && letters.renewals.is_empty()
            && letters.ops.is_empty()
            && letters.calls.is_empty()
            && letters.answers.is_empty()
    }
}
