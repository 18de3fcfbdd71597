//! The wake-up times of all cells, in order.

use super::cell::Cell;
use crate::time::Moment;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, Default)]
pub(super) struct Schedule {
    wakes: BTreeMap<(Moment, u64), Arc<Cell>>,
}

impl Schedule {
    /// Moves the wake-up of a cell, and returns the earliest of all.
    pub(super) fn set(
        &mut self,
        cell: &Arc<Cell>,
        from: Option<Moment>,
        to: Option<Moment>,
    ) -> Option<Moment> {
        if let Some(at) = from {
            self.wakes.remove(&(at, cell.id));
        }
        if let Some(at) = to {
            self.wakes.insert((at, cell.id), cell.clone());
        }
        self.next()
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.wakes.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Arc<Cell>> {
        let later = self.wakes.split_off(&(now + std::time::Duration::from_micros(1), 0));
        std::mem::replace(&mut self.wakes, later).into_values().collect()
    }

    pub(super) fn clear(&mut self) {
        self.wakes.clear();
    }
}
