//! A job's pending runs: the claims to send, in ascending order. Each claim starts a run, or records a series of
//! skips: consecutive scheduled times whose runs are not started.

use super::{
    ClaimOutcome, Due, missed,
    room::{BUSY, Room},
};
use crate::{observer::SkipReason, options::JobTerms};
use lock_core::{__private::Backoff, clock::UtcTime};
use lock_ledger::{CatchUp, ClaimId, ClaimReply, RunId};
use std::{collections::VecDeque, mem, ops::Range};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingRun {
    /// The run; for a series of skips, the last one.
    pub(super) run: RunId,
    pub(super) catch_up: CatchUp,
    /// The end of the grace; `None` for a trigger.
    pub(super) until: Option<UtcTime>,
    /// Set if the run waits until the open runs of the job end, regardless of the overlap policy.
    pub(super) queues: bool,
    /// Set once the store replied that the run must wait for open runs of the job.
    pub(super) is_busy: bool,
    /// Set if this is a series of skips and not a run to start.
    pub(super) skip: Option<SkippedSeries>,
    /// The claim of an earlier request that may still be applied.
    pub(super) in_doubt: Option<ClaimId>,
    /// Set if the store replied that the scheduled time is still in the future.
    pub(super) early: bool,
}

/// Scheduled times that are decided without being started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SkippedSeries {
    pub(super) first: RunId,
    pub(super) count: u32,
    pub(super) reason: SkipReason,
}

fn run_at(at: UtcTime) -> RunId {
    RunId::Scheduled(at)
}

impl PendingRun {
    pub(super) fn triggered(run: RunId) -> Self {
        Self {
            run,
            catch_up: CatchUp::No,
            until: None,
            queues: false,
            is_busy: false,
            skip: None,
            in_doubt: None,
            early: false,
        }
    }

    pub(super) fn backfill(run: RunId, queues: bool) -> Self {
        Self { queues, ..Self::triggered(run) }
    }

    pub(super) fn scheduled(due: &missed::DueInstant, queues: bool) -> Self {
        Self { catch_up: due.catch_up, until: Some(due.until), queues, ..Self::triggered(run_at(due.at)) }
    }

    pub(super) fn skipped(first: UtcTime, last: UtcTime, count: u32, reason: SkipReason) -> Self {
        let series = SkippedSeries { first: run_at(first), count, reason };
        Self { skip: Some(series), ..Self::triggered(run_at(last)) }
    }

    fn is_on_time(&self) -> bool {
        self.catch_up == CatchUp::No && self.skip.is_none() && self.run.scheduled().is_some()
    }

    /// Returns `true` if the run waits for other runs, so that it and the runs behind it may be late.
    fn waits_for_others(&self) -> bool {
        self.queues || self.is_busy
    }

    /// Returns the server time after which the run must not start.
    pub(super) fn not_after(&self) -> Option<UtcTime> {
        self.until.filter(|_| self.is_on_time() && !self.waits_for_others())
    }

    /// Returns `true` if its claim may start a run that this node does not yet count.
    pub(super) fn needs_room(&self) -> bool {
        self.skip.is_none() && self.in_doubt.is_none()
    }

    /// Makes the run late: the store refused to start it after its grace.
    fn grace_ended(&mut self) {
        (self.until, self.in_doubt) = (Some(UtcTime::default()), None);
    }

    /// Returns the scheduled time, if the run can still count as missed.
    fn can_be_missed(&self) -> Option<UtcTime> {
        let at = self.run.scheduled()?;
        (self.in_doubt.is_none() && !self.early && self.skip.is_none()).then_some(at)
    }
}

/// Runs whose claims are sent one after another.
#[derive(Debug)]
pub(super) struct PendingRuns {
    pub(super) entries: VecDeque<PendingRun>,
    /// Set while the claim of the front run is in flight.
    pub(super) in_flight: bool,
    /// The time before which no claim is sent.
    pub(super) not_before: UtcTime,
    /// The back-off while other runs are open.
    busy: Backoff,
}

impl Default for PendingRuns {
    fn default() -> Self {
        Self { entries: VecDeque::new(), in_flight: false, not_before: UtcTime::default(), busy: BUSY }
    }
}

impl PendingRuns {
    pub(super) fn push(&mut self, entry: PendingRun) {
        self.entries.push_back(entry);
        self.join_rows();
    }

    pub(super) fn front(&self) -> Option<&PendingRun> {
        self.entries.front()
    }

    /// Returns the time from which the front run may be claimed. Returns `None` if there is none, or if an event must
    /// come first: the reply to its claim, the end of a run, or a reply about the pool.
    pub(super) fn opens_at(&self, terms: &JobTerms, room: &Room) -> Option<UtcTime> {
        let front = self.front().filter(|_| !self.in_flight)?;
        let opens = if front.needs_room() { room.opens_at(terms)? } else { UtcTime::default() };
        Some(opens.max(self.not_before))
    }

    /// Handles the outcome of the claim in flight. Returns its run, unless the plan was discarded in the meantime.
    pub(super) fn answered(&mut self, due: &Due, outcome: &ClaimOutcome) -> Option<PendingRun> {
        let was_in_flight = mem::take(&mut self.in_flight);
        let front = self.entries.front_mut().filter(|front| was_in_flight && front.run == due.request.run)?;
        front.in_doubt = due.in_doubt.then_some(due.request.claim);
        front.early = matches!(outcome, ClaimOutcome::Answered(ClaimReply::Early { .. }));
        front.is_busy |= matches!(outcome, ClaimOutcome::Answered(ClaimReply::Busy { .. }));
        if *outcome == ClaimOutcome::Answered(ClaimReply::Late) {
            front.grace_ended();
        }
        Some(*front)
    }

    /// Removes the front run after it was decided.
    pub(super) fn pop(&mut self) {
        self.entries.pop_front();
        self.clear_backoff();
    }

    /// Allows the next claim immediately.
    pub(super) fn clear_backoff(&mut self) {
        self.not_before = UtcTime::default();
        self.busy.reset();
    }

    /// Delays the next claim while other runs are open. Each call doubles the delay.
    pub(super) fn back_off(&mut self, now: UtcTime) {
        self.not_before = now + self.busy.next_wait();
    }

    /// Removes the front run if it belongs to a backfill and other runs wait behind it, unless the store may already
    /// have its claim.
    pub(super) fn give_way(&mut self) {
        let is_backfill = |entry: &PendingRun| entry.run.backfill().is_some() && entry.in_doubt.is_none();
        let gives_way = !self.in_flight && self.entries.len() > 1 && self.front().is_some_and(is_backfill);
        if gives_way {
            self.pop();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Counts the scheduled times and triggers.
    pub(super) fn count(&self) -> u32 {
        let counts = self.entries.iter().map(|entry| entry.skip.map_or(1, |series| series.count));
        counts.fold(0, u32::saturating_add)
    }

    pub(super) fn has(&self, run: RunId) -> bool {
        self.entries.iter().any(|entry| entry.run == run)
    }

    pub(super) fn has_queue(&self) -> bool {
        self.entries.iter().any(|entry| entry.queues)
    }

    pub(super) fn has_scheduled(&self) -> bool {
        self.entries.iter().any(|entry| entry.run.scheduled().is_some())
    }

    /// Returns the range of the runs that are not in flight, and do not wait for other runs of the job.
    fn without_wait(&self) -> Range<usize> {
        let end = self.entries.iter().position(PendingRun::waits_for_others).unwrap_or(self.entries.len());
        usize::from(self.in_flight).min(end)..end
    }

    /// Returns `true` if a run is waiting that only the leader may start: a catch-up run or a triggered one.
    pub(super) fn has_leaders_run(&self) -> bool {
        !self.in_flight && self.front().is_some_and(|entry| entry.skip.is_none() && !entry.is_on_time())
    }

    /// Returns `true` if the front claim got no reply and is not in flight.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.in_flight && self.front().is_some_and(|entry| entry.in_doubt.is_some() && entry.skip.is_none())
    }

    /// Skips the on-time runs for which no node had room.
    pub(super) fn skip_without_room(&mut self, is_late: impl Fn(Option<UtcTime>) -> bool) {
        let range = self.without_wait();
        for entry in self.entries.range_mut(range) {
            if entry.is_on_time() && entry.can_be_missed().is_some() && is_late(entry.until) {
                entry.skip =
                    Some(SkippedSeries { first: entry.run, count: 1, reason: SkipReason::NoCapacity });
            }
        }
        self.join_rows();
    }

    /// Drops the front runs that this watermark decides, except one whose claim the store may already have.
    pub(super) fn drop_decided(&mut self, watermark: UtcTime) {
        let front = usize::from(self.in_flight);
        let decided = |entry: &PendingRun| {
            let at = entry.run.scheduled().filter(|_| entry.in_doubt.is_none());
            at.is_some_and(|at| at <= watermark)
        };
        while self.entries.get(front).is_some_and(decided) {
            self.entries.remove(front);
        }
    }

    /// If a run is late, removes the first run that can be missed with everything scheduled after it, and returns its
    /// scheduled time. A series of skips that stayed would be claimed first, and would decide the removed times.
    pub(super) fn take_late(&mut self, is_late: impl Fn(Option<UtcTime>) -> bool) -> Option<UtcTime> {
        let mut waiting =
            self.entries.range(self.without_wait()).filter(|entry| entry.can_be_missed().is_some());
        let first = waiting.clone().find_map(PendingRun::can_be_missed)?;
        if !waiting.any(|entry| entry.catch_up == CatchUp::No && is_late(entry.until)) {
            return None;
        }
        self.entries.retain(|entry| entry.run.scheduled().is_none_or(|at| at < first));
        Some(first)
    }

    /// While runs queue, skips the on-time runs after the first `room` of them.
    pub(super) fn skip_on_time_beyond(&mut self, room: usize) {
        if !self.has_queue() {
            return;
        }
        let mut on_time = 0;
        for entry in &mut self.entries {
            on_time += usize::from(entry.is_on_time());
            if entry.is_on_time() && on_time > room && entry.can_be_missed().is_some() {
                entry.skip = Some(SkippedSeries { first: entry.run, count: 1, reason: SkipReason::Overlap });
            }
        }
        self.join_rows();
    }

    /// Skips each on-time run that is not in flight and is followed by another.
    pub(super) fn coalesce_on_time(&mut self) {
        let Some(last) = self.entries.iter().rposition(PendingRun::is_on_time) else { return };
        let front = usize::from(self.in_flight);
        for entry in self.entries.range_mut(front.min(last)..last) {
            if entry.is_on_time() {
                entry.skip = Some(SkippedSeries { first: entry.run, count: 1, reason: SkipReason::Queue });
                (entry.queues, entry.is_busy, entry.early) = (false, false, false);
            }
        }
        self.join_rows();
    }

    /// Joins adjacent rows with the same reason, to keep the queue short.
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
                    self.entries[at].skip = Some(SkippedSeries { first: a.first, count, reason: a.reason });
                    self.entries.remove(at - 1);
                }
                _ => at += 1,
            }
        }
    }
}
