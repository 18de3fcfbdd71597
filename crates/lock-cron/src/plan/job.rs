//! What is planned of one job: its agenda.

use super::{BUSY, Command, Due, SkipReason, missed, missed::Budget, utc};
use crate::{
    options::{Overlap, Scope, Terms},
    schedule::{Schedule, UtcTime},
};
use lock_core::{
    FencingToken, LockName,
    backend::ledger::{CatchUp, ClaimId, RunId},
};
use std::{collections::VecDeque, mem, time::Duration};

#[derive(Debug)]
pub(super) struct Job {
    pub(super) schedule: Schedule,
    pub(super) terms: Terms,
    pub(super) revision: u64,
    pub(super) paused: bool,
    /// Decided, or put on the agenda, up to here; `None` before it is registered.
    pub(super) cursor: Option<UtcTime>,
    /// The first instant after the cursor.
    pub(super) next: Option<UtcTime>,
    /// Several instants have come that no tick has looked back at yet: the distance of the first two.
    pub(super) behind: Option<Duration>,
    /// The next run that is on time queues behind the catch-up runs.
    pub(super) follows_catch_up: bool,
    pub(super) agenda: VecDeque<Entry>,
    /// The entry at the front of the agenda was asked for.
    pub(super) in_flight: bool,
    /// Not to be asked for before.
    pub(super) not_before: UtcTime,
    /// Skipped since the last claim, for its record.
    pub(super) missed: u32,
    /// Of a job of each node: how many run here.
    pub(super) running: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) run: RunId,
    pub(super) catch_up: CatchUp,
    /// The end of the grace; a trigger has none.
    until: Option<UtcTime>,
    /// It waits for the open runs of the job to end, whatever the overlap policy.
    pub(super) queues: bool,
    /// The claim of an earlier request that may still be carried out.
    pub(super) in_doubt: Option<ClaimId>,
    /// The store has said that it comes yet.
    pub(super) early: bool,
}

impl Entry {
    pub(super) fn triggered(run: RunId) -> Self {
        Self { run, catch_up: CatchUp::No, until: None, queues: false, in_doubt: None, early: false }
    }

    fn scheduled(come: &missed::Come, queues: bool) -> Self {
        let run = RunId::at_millis(u64::try_from(come.at.as_millis()).unwrap_or(0));
        Self { catch_up: come.catch_up, until: Some(come.until), queues, ..Self::triggered(run) }
    }

    fn is_on_time(&self) -> bool {
        self.catch_up == CatchUp::No && self.run.scheduled().is_some()
    }

    /// What the store may already know of is not taken back.
    fn can_be_missed(&self) -> Option<UtcTime> {
        let at = self.run.scheduled().map(utc)?;
        (self.in_doubt.is_none() && !self.early).then_some(at)
    }
}

impl Job {
    pub(super) fn decided_up_to(&mut self, cursor: UtcTime) {
        self.go_on_from(cursor, self.schedule.next_after(cursor));
    }

    fn go_on_from(&mut self, cursor: UtcTime, next: Option<UtcTime>) {
        (self.cursor, self.next, self.behind) = (Some(cursor), next, None);
    }

    /// Of the entry that was in flight.
    pub(super) fn decided(&mut self) {
        self.agenda.pop_front();
        self.missed = 0;
        self.not_before = UtcTime::from_millis(i64::MIN);
    }

    /// What was planned is void, until the watermark is told again.
    pub(super) fn forget(&mut self) {
        self.agenda.clear();
        self.in_flight = false;
        self.missed = 0;
        (self.cursor, self.next, self.behind, self.follows_catch_up) = (None, None, None, false);
        self.not_before = UtcTime::from_millis(i64::MIN);
    }

    /// Puts the instant that has come on the agenda, as the policies say. Several of them are left to [`look_back`](Self::look_back).
    pub(super) fn list_due(&mut self, name: &LockName, now: UtcTime, out: &mut Vec<Command>) {
        self.take_back_what_is_late(now);
        let Some(first) = self.next.filter(|next| *next <= now && self.behind.is_none()) else { return };
        if self.paused {
            self.decided_up_to(now);
            return;
        }
        let second = self.schedule.next_after(first);
        match second.filter(|second| *second <= now) {
            Some(second) => self.behind = Some(second.since(first)),
            None => self.list(name, now, missed::one(&self.terms, first, second, now), out),
        }
    }

    /// Puts the latest of several instants on the agenda, as the policies say, and counts the others.
    pub(super) fn look_back(
        &mut self,
        name: &LockName,
        now: UtcTime,
        budget: &mut Budget,
        out: &mut Vec<Command>,
    ) {
        if let (Some(cursor), Some(distance)) = (self.cursor, self.behind) {
            let come = missed::look_back(&self.schedule, &self.terms, cursor, now, distance, budget);
            self.list(name, now, come, out);
        }
    }

    fn list(&mut self, name: &LockName, now: UtcTime, come: missed::LookBack, out: &mut Vec<Command>) {
        self.go_on_from(now, come.next);
        for instant in &come.start {
            let is_catch_up = instant.catch_up == CatchUp::Yes;
            let queues = is_catch_up || mem::take(&mut self.follows_catch_up);
            self.follows_catch_up |= is_catch_up;
            self.agenda.push_back(Entry::scheduled(instant, queues));
        }
        self.missed = self.missed.saturating_add(come.skipped);
        let (overtaken, reason) = match self.overlap_room() {
            None => (self.keep_the_latest_on_time(), SkipReason::Queue),
            Some(room) => (self.keep_the_first_on_time(room), SkipReason::Overlap),
        };
        for (count, reason) in [(come.skipped, SkipReason::Missed), (overtaken, reason)] {
            if count > 0 {
                out.push(Command::Skipped { job: name.clone(), reason, count });
            }
        }
    }

    /// How many runs that are on time wait behind catch-up runs; `None` if the overlap policy keeps the latest.
    fn overlap_room(&self) -> Option<usize> {
        match self.terms.overlap {
            Overlap::QueueOne | Overlap::CancelPrevious => None,
            Overlap::Skip => Some(1),
            Overlap::Allow { max } => {
                Some(usize::try_from(max).map_or(missed::MAX_STARTED, |max| max.min(missed::MAX_STARTED)))
            }
        }
    }

    /// Takes back the entries that the store was not asked for in time: the misfire policy decides about them again. Entries that wait
    /// for a run to end stay, since a policy of their own says so.
    fn take_back_what_is_late(&mut self, now: UtcTime) {
        if self.overlap_room().is_none() || self.agenda.iter().any(|entry| entry.queues) {
            return;
        }
        let front = usize::from(self.in_flight);
        let waiting = || self.agenda.iter().skip(front);
        let overtaken = self.next.is_some_and(|next| next <= now);
        let is_late = |entry: &Entry| {
            let on_time = entry.can_be_missed().is_some() && entry.catch_up == CatchUp::No;
            on_time && (overtaken || entry.until.is_some_and(|until| until < now))
        };
        if !waiting().any(is_late) {
            return;
        }
        let Some(first) = waiting().filter_map(Entry::can_be_missed).min() else { return };
        let mut at = 0;
        self.agenda.retain(|entry| {
            at += 1;
            at <= front || entry.can_be_missed().is_none()
        });
        self.decided_up_to(first.saturating_sub(Duration::from_millis(1)));
    }

    /// Drops the entries that are on time behind the first `room` of them, while entries queue.
    fn keep_the_first_on_time(&mut self, room: usize) -> u32 {
        if !self.agenda.iter().any(|entry| entry.queues) {
            return 0;
        }
        let (before, mut on_time) = (self.agenda.len(), 0);
        self.agenda.retain(|entry| {
            on_time += usize::from(entry.is_on_time());
            !entry.is_on_time() || on_time <= room || entry.can_be_missed().is_none()
        });
        u32::try_from(before - self.agenda.len()).unwrap_or(u32::MAX)
    }

    /// Drops each scheduled entry that is not in flight, and behind which another one that is on time stands.
    pub(super) fn keep_the_latest_on_time(&mut self) -> u32 {
        let Some(last) = self.agenda.iter().rposition(Entry::is_on_time) else { return 0 };
        let front = usize::from(self.in_flight);
        let mut at = 0;
        let before = self.agenda.len();
        self.agenda.retain(|entry| {
            let keep = at < front || at >= last || !entry.is_on_time();
            at += 1;
            keep
        });
        u32::try_from(before - self.agenda.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn ask(&mut self, name: &LockName, now: UtcTime, epoch: FencingToken, out: &mut Vec<Command>) {
        if self.in_flight || self.not_before > now {
            return;
        }
        let Some(Entry { run, catch_up, queues, in_doubt, .. }) = self.agenda.front().copied() else {
            return;
        };
        let (revision, missed) = (self.revision, self.missed);
        let overlap = if queues { Overlap::QueueOne } else { self.terms.overlap };
        let due = Due { job: name.clone(), run, catch_up, overlap, missed, revision, epoch, in_doubt };
        if self.terms.scope == Scope::Fleet {
            self.in_flight = true;
            out.push(Command::Claim(due));
            return;
        }
        // Of each node: the rule for overlaps is kept here.
        match overlap {
            Overlap::QueueOne | Overlap::CancelPrevious if self.running > 0 => {
                self.not_before = now.saturating_add(BUSY);
                if overlap == Overlap::CancelPrevious {
                    out.push(Command::EndRunning(name.clone()));
                }
                return;
            }
            Overlap::Skip if self.running > 0 => out.push(overlapped(name)),
            Overlap::Allow { max } if self.running >= max => out.push(overlapped(name)),
            _ => {
                self.running += 1;
                out.push(Command::StartHere(due));
            }
        }
        self.decided();
    }

    pub(super) fn wake_at(&self) -> Option<UtcTime> {
        let asks = (!self.agenda.is_empty() && !self.in_flight).then_some(self.not_before);
        asks.into_iter().chain(self.next.filter(|_| !self.paused)).min()
    }
}

fn overlapped(name: &LockName) -> Command {
    Command::Skipped { job: name.clone(), reason: SkipReason::Overlap, count: 1 }
}
