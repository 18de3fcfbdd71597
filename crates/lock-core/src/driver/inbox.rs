//! What is left for the worker, from any thread, inside or outside a runtime.

use super::{cell::Cell, io::Op};
use crate::{machine::Event, sync::lock};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Inbox {
    letters: Mutex<Letters>,
    bell: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Letters {
    /// Cells with mail.
    pub(super) cells: Vec<Arc<Cell>>,
    /// Renewals, to be sent together.
    pub(super) renewals: Vec<(Arc<Cell>, Op)>,
    /// Calls to be started here, because whoever wanted them was being dropped.
    pub(super) ops: Vec<(Arc<Cell>, Op)>,
    /// Calls that were polled once and are pending.
    pub(super) calls: Vec<super::io::Call>,
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
        letters.cells.reserve(room);
    }

    pub(super) fn guard_gone(&self) {
        let mut letters = lock(&self.letters);
        letters.guards = letters.guards.saturating_sub(1);
    }

    pub(super) fn put(&self, f: impl FnOnce(&mut Letters)) {
        f(&mut lock(&self.letters));
        self.bell.notify_one();
    }

    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    pub(super) async fn wait(&self) {
        self.bell.notified().await;
    }

    /// Takes everything; the room made for guards stays.
    pub(super) fn take(&self) -> Letters {
        let mut letters = lock(&self.letters);
        Letters {
            cells: letters.cells.drain(..).collect(),
            renewals: std::mem::take(&mut letters.renewals),
            ops: std::mem::take(&mut letters.ops),
            calls: std::mem::take(&mut letters.calls),
            answers: std::mem::take(&mut letters.answers),
            guards: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let letters = lock(&self.letters);
        letters.cells.is_empty()
            && letters.renewals.is_empty()
            && letters.ops.is_empty()
            && letters.calls.is_empty()
            && letters.answers.is_empty()
    }
}
