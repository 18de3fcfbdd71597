//! What is planned of one job: its agenda.

use super::{BUSY, Command, Due, SkipReason, missed, utc};
use crate::{
    options::{Overlap, Scope, Terms},
    schedule::{Schedule, UtcTime},
};
use lock_core::{
    FencingToken, LockName,
    backend::ledger::{CatchUp, ClaimId, RunId},
};
use std::{collections::VecDeque, time::Duration};

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
    /// The claim of an earlier request that may still be carried out.
    pub(super) in_doubt: Option<ClaimId>,
    /// The store has said that it comes yet.
    pub(super) early: bool,
}

impl Entry {
    pub(super) fn new(run: RunId, catch_up: CatchUp) -> Self {
        Self { run, catch_up, in_doubt: None, early: false }
    }

    /// What the store may already know of is not taken back.
    fn can_be_missed(&self) -> Option<UtcTime> {
        let at = self.run.scheduled().map(utc)?;
        (self.in_doubt.is_none() && !self.early).then_some(at)
    }
}

impl Job {
    pub(super) fn decided_up_to(&mut self, cursor: UtcTime) {
        self.cursor = Some(cursor);
        self.next = self.schedule.next_after(cursor);
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
        (self.cursor, self.next) = (None, None);
        self.not_before = UtcTime::from_millis(i64::MIN);
    }

    /// Puts on the agenda what has come, as far as the policies want it.
    pub(super) fn list_due(&mut self, name: &LockName, now: UtcTime, out: &mut Vec<Command>) {
        self.take_back_what_is_late(now);
        let Some(cursor) = self.cursor else { return };
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        if self.paused {
            self.decided_up_to(now);
            return;
        }
        let due = missed::sift(&self.schedule, &self.terms, cursor, now);
        self.decided_up_to(due.up_to);
        let mut skipped = due.skipped;
        for (at, catch_up) in due.run {
            let run = RunId::at_millis(u64::try_from(at.as_millis()).unwrap_or(0));
            self.agenda.push_back(Entry::new(run, catch_up));
        }
        if skipped > 0 {
            self.missed = self.missed.saturating_add(skipped);
            out.push(Command::Skipped { job: name.clone(), reason: SkipReason::Missed, count: skipped });
        }
        // Of what waits for a run to end, the latest is kept.
        if matches!(self.terms.overlap, Overlap::QueueOne | Overlap::CancelPrevious) {
            skipped = self.keep_the_latest_on_time();
            if skipped > 0 {
                out.push(Command::Skipped { job: name.clone(), reason: SkipReason::Queue, count: skipped });
            }
        }
    }

    /// What could not be asked for in time, since the store did not answer, is as late as after an outage, and the policy for what
    /// is missed decides again. What waits for a run to end waits because its own policy says so.
    fn take_back_what_is_late(&mut self, now: UtcTime) {
        if matches!(self.terms.overlap, Overlap::QueueOne | Overlap::CancelPrevious) {
            return;
        }
        let front = usize::from(self.in_flight);
        let waiting = || self.agenda.iter().skip(front);
        let is_late = |entry: &Entry| {
            let at = entry.can_be_missed().filter(|_| entry.catch_up == CatchUp::No);
            at.is_some_and(|at| now.since(at) > missed::ON_TIME)
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

    /// Drops each scheduled entry that is not in flight, and behind which another one that is on time stands.
    pub(super) fn keep_the_latest_on_time(&mut self) -> u32 {
        let on_time = |entry: &Entry| entry.catch_up == CatchUp::No && entry.run.scheduled().is_some();
        let Some(last) = self.agenda.iter().rposition(on_time) else { return 0 };
        let front = usize::from(self.in_flight);
        let mut at = 0;
        let before = self.agenda.len();
        self.agenda.retain(|entry| {
            let keep = at < front || at >= last || !on_time(entry);
            at += 1;
            keep
        });
        u32::try_from(before - self.agenda.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn ask(&mut self, name: &LockName, now: UtcTime, epoch: FencingToken, out: &mut Vec<Command>) {
        if self.in_flight || self.not_before > now {
            return;
        }
        let Some(Entry { run, catch_up, in_doubt, .. }) = self.agenda.front().copied() else { return };
        let (revision, missed) = (self.revision, self.missed);
        let due = Due { job: name.clone(), run, catch_up, missed, revision, epoch, in_doubt };
        if self.terms.scope == Scope::Fleet {
            self.in_flight = true;
            out.push(Command::Claim(due));
            return;
        }
        // Of each node: the rule for overlaps is kept here.
        match self.terms.overlap {
            Overlap::QueueOne | Overlap::CancelPrevious if self.running > 0 => {
                self.not_before = now.saturating_add(BUSY);
                if self.terms.overlap == Overlap::CancelPrevious {
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
