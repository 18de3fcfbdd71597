//! The cards of an in-memory store. Each write drops the expired ones.

use crate::{card::ProcessCard, ids::ProcessId, time::UtcTime};
use std::collections::HashMap;

/// Cards with the times at which they expire.
#[derive(Default)]
pub(super) struct CardMap(HashMap<ProcessId, (ProcessCard, UtcTime)>);

impl CardMap {
    pub(super) fn write(&mut self, now: UtcTime, process: ProcessId, card: ProcessCard, end: UtcTime) {
        self.0.retain(|_, (_, end)| now < *end);
        self.0.insert(process, (card, end));
    }

    pub(super) fn remove(&mut self, process: ProcessId) {
        self.0.remove(&process);
    }

    pub(super) fn read(&self, now: UtcTime, process: ProcessId) -> Option<ProcessCard> {
        let (card, _) = self.0.get(&process).filter(|(_, end)| now < *end)?;
        Some(card.clone())
    }
}
