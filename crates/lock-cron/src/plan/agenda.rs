//! The agenda of a job: the runs and the rows of skips that the store is to be asked for, in ascending order.

use super::{SkipReason, missed};
use crate::time::UtcTime;
use lock_ledger::{CatchUp, ClaimId, RunId};
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Of a row the last one.
    pub(super) run: RunId,
    pub(super) catch_up: CatchUp,
    /// The end of the grace; a trigger has none.
    until: Option<UtcTime>,
    /// It waits for the open runs of the job to end, whatever the overlap policy.
    pub(super) queues: bool,
    /// It is not to be started.
    pub(super) skip: Option<Row>,
    /// The claim of an earlier request that may still be carried out.
    pub(super) in_doubt: Option<ClaimId>,
    /// The store has said that it comes yet.
    pub(super) early: bool,
}

/// Instants that are decided and not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) first: RunId,
    pub(super) count: u32,
    pub(super) reason: SkipReason,
}

fn run_at(at: UtcTime) -> RunId {
    RunId::Scheduled(at.to_server_time())
}

impl Entry {
    pub(super) fn triggered(run: RunId) -> Self {
        let (until, queues, skip, in_doubt, early) = (None, false, None, None, false);
        Self { run, catch_up: CatchUp::No, until, queues, skip, in_doubt, early }
    }

    pub(super) fn scheduled(come: &missed::Come, queues: bool) -> Self {
        Self { catch_up: come.catch_up, until: Some(come.until), queues, ..Self::triggered(run_at(come.at)) }
    }

    pub(super) fn skipped(first: UtcTime, last: UtcTime, count: u32, reason: SkipReason) -> Self {
        let row = Row { first: run_at(first), count, reason };
        Self { skip: Some(row), ..Self::triggered(run_at(last)) }
    }

    fn is_on_time(&self) -> bool {
        self.catch_up == CatchUp::No && self.skip.is_none() && self.run.scheduled().is_some()
    }

    /// What the store may already know of is not taken back.
    fn can_be_missed(&self) -> Option<UtcTime> {
        let at = self.run.scheduled().map(UtcTime::from)?;
        (self.in_doubt.is_none() && !self.early && self.skip.is_none()).then_some(at)
    }
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    pub(super) entries: VecDeque<Entry>,
    /// The entry at the front was asked for.
    pub(super) in_flight: bool,
}

impl Agenda {
    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
        self.join_rows();
    }

    pub(super) fn front(&self) -> Option<&Entry> {
        self.entries.front()
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Entry> {
        self.entries.front_mut()
    }

    pub(super) fn pop(&mut self) {
        self.entries.pop_front();
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.in_flight = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of instants and triggers on it.
    pub(super) fn count(&self) -> u32 {
        let counts = self.entries.iter().map(|entry| entry.skip.map_or(1, |row| row.count));
        counts.fold(0, u32::saturating_add)
    }

    pub(super) fn has(&self, run: RunId) -> bool {
        self.entries.iter().any(|entry| entry.run == run)
    }

    pub(super) fn has_queue(&self) -> bool {
        self.entries.iter().any(|entry| entry.queues)
    }

    /// Drops the entries in front that are decided up to this watermark, except one that was asked for.
    pub(super) fn drop_decided(&mut self, watermark: UtcTime) {
        let front = usize::from(self.in_flight);
        let decided = |entry: &Entry| entry.run.scheduled().is_some_and(|at| UtcTime::from(at) <= watermark);
        while self.entries.get(front).is_some_and(decided) {
            self.entries.remove(front);
        }
    }

    /// Takes the rows of skips off it.
    pub(super) fn take_skips(&mut self) -> Vec<(SkipReason, u32)> {
        let rows = self.entries.iter().filter_map(|entry| entry.skip);
        let skips = rows.map(|row| (row.reason, row.count)).collect();
        self.entries.retain(|entry| entry.skip.is_none());
        skips
    }

    /// Takes all that can be missed back if one of the entries is late, and gives the first instant of it.
    pub(super) fn take_back(&mut self, is_late: impl Fn(Option<UtcTime>) -> bool) -> Option<UtcTime> {
        let front = usize::from(self.in_flight);
        let waiting = || self.entries.iter().skip(front).filter(|entry| entry.can_be_missed().is_some());
        if !waiting().any(|entry| entry.catch_up == CatchUp::No && is_late(entry.until)) {
            return None;
        }
        let first = waiting().filter_map(Entry::can_be_missed).min();
        let mut at = 0;
        self.entries.retain(|entry| {
            at += 1;
            at <= front || entry.can_be_missed().is_none()
        });
        first
    }

    /// Skips the entries that are on time behind the first `room` of them, while entries queue.
    pub(super) fn keep_the_first_on_time(&mut self, room: usize) {
        if !self.has_queue() {
            return;
        }
        let mut on_time = 0;
        for entry in &mut self.entries {
            on_time += usize::from(entry.is_on_time());
            if entry.is_on_time() && on_time > room && entry.can_be_missed().is_some() {
                entry.skip = Some(Row { first: entry.run, count: 1, reason: SkipReason::Overlap });
            }
        }
        self.join_rows();
    }

    /// Skips each scheduled entry that is not in flight, and behind which another one that is on time stands.
    pub(super) fn keep_the_latest_on_time(&mut self) {
        let Some(last) = self.entries.iter().rposition(Entry::is_on_time) else { return };
        let front = usize::from(self.in_flight);
        for entry in self.entries.range_mut(front.min(last)..last) {
            if entry.is_on_time() {
                entry.skip = Some(Row { first: entry.run, count: 1, reason: SkipReason::Queue });
                (entry.queues, entry.early) = (false, false);
            }
        }
        self.join_rows();
    }

    /// Rows for one reason that follow one another are one, so that an agenda stays short.
    fn join_rows(&mut self) {
        let front = usize::from(self.in_flight);
        let mut at = front + 1;
        while at < self.entries.len() {
            let (before, entry) = (self.entries[at - 1], self.entries[at]);
            match (before.skip, entry.skip) {
                (Some(a), Some(b))
                    if a.reason == b.reason && before.in_doubt.is_none() && entry.in_doubt.is_none() =>
                {
                    let count = a.count.saturating_add(b.count);
                    self.entries[at].skip = Some(Row { first: a.first, count, reason: a.reason });
                    self.entries.remove(at - 1);
                }
                _ => at += 1,
            }
        }
    }
}
