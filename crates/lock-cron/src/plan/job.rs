//! What is planned of one job: its agenda.

use super::{
    Command, Due, PAUSE, SkipReason,
    agenda::{Agenda, Entry},
    missed,
    missed::Budget,
};
use crate::{
    backoff::Backoff,
    options::{Overlap, Scope, Terms},
    schedule::Schedule,
    time::UtcTime,
};
use lock_core::LockName;
use lock_ledger::{CatchUp, Skip};
use std::{mem, time::Duration};

#[derive(Debug)]
pub(super) struct Job {
    pub(super) schedule: Schedule,
    /// The fingerprint by which the store knows the schedule.
    pub(super) identity: u64,
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
    pub(super) agenda: Agenda,
    /// Not to be asked for before.
    pub(super) not_before: UtcTime,
    /// The waits while other runs are open.
    pub(super) busy: Backoff,
    /// Of a job of each node: how many run here.
    pub(super) running: u32,
}

impl Job {
    pub(super) fn decided_up_to(&mut self, cursor: UtcTime) {
        self.go_on_from(cursor, self.schedule.next_after(cursor));
    }

    fn go_on_from(&mut self, cursor: UtcTime, next: Option<UtcTime>) {
        (self.cursor, self.next, self.behind) = (Some(cursor), next, None);
    }

    /// The entry that was asked for is decided.
    pub(super) fn decided(&mut self) {
        self.agenda.pop();
        self.ask_at_once();
    }

    /// Nothing is in the way any more, as far as is known.
    pub(super) fn ask_at_once(&mut self) {
        self.not_before = UtcTime::from_millis(i64::MIN);
        self.busy.reset();
    }

    /// Other runs are in the way: each answer doubles the wait for the next one.
    pub(super) fn ask_later(&mut self, now: UtcTime) {
        self.not_before = now.saturating_add(self.busy.next());
    }

    /// What was planned is void, until the watermark is told again.
    pub(super) fn forget(&mut self) {
        self.agenda.clear();
        (self.cursor, self.next, self.behind, self.follows_catch_up) = (None, None, None, false);
        self.ask_at_once();
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
        if let Some(row) = come.skipped {
            self.agenda.push(Entry::skipped(row.first, row.last, row.count, SkipReason::Missed));
        }
        for instant in &come.start {
            let is_catch_up = instant.catch_up == CatchUp::Yes;
            let queues = is_catch_up || mem::take(&mut self.follows_catch_up);
            self.follows_catch_up |= is_catch_up;
            self.agenda.push(Entry::scheduled(instant, queues));
        }
        match self.overlap_room() {
            None => self.agenda.keep_the_latest_on_time(),
            Some(room) => self.agenda.keep_the_first_on_time(room),
        }
        if self.terms.scope == Scope::PerNode {
            let told = self.agenda.take_skips().into_iter();
            out.extend(told.map(|(reason, count)| Command::Skipped { job: name.clone(), reason, count }));
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
        if self.overlap_room().is_none() || self.agenda.has_queue() {
            return;
        }
        let overtaken = self.next.is_some_and(|next| next <= now);
        if let Some(first) =
            self.agenda.take_back(|until| overtaken || until.is_some_and(|until| until < now))
        {
            self.decided_up_to(first.saturating_sub(Duration::from_millis(1)));
        }
    }

    pub(super) fn ask(&mut self, name: &LockName, now: UtcTime, out: &mut Vec<Command>) {
        if self.agenda.in_flight || self.not_before > now {
            return;
        }
        let Some(Entry { run, catch_up, queues, in_doubt, skip, .. }) = self.agenda.front().copied() else {
            return;
        };
        let overlap = if queues { Overlap::QueueOne } else { self.terms.overlap };
        let skip = skip.map(|row| Skip {
            first: row.first,
            count: row.count,
            detail: row.reason.detail().to_owned(),
        });
        let due = Due {
            job: name.clone(),
            run,
            catch_up,
            overlap,
            skip,
            schedule: self.identity,
            revision: self.revision,
            in_doubt,
        };
        if self.terms.scope == Scope::Fleet {
            self.agenda.in_flight = true;
            out.push(Command::Claim(due));
            return;
        }
        // Of each node: the rule for overlaps is kept here.
        match overlap {
            Overlap::QueueOne | Overlap::CancelPrevious if self.running > 0 => {
                self.not_before = now.saturating_add(PAUSE);
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
        let asks = (!self.agenda.is_empty() && !self.agenda.in_flight).then_some(self.not_before);
        asks.into_iter().chain(self.next.filter(|_| !self.paused)).min()
    }
}

fn overlapped(name: &LockName) -> Command {
    Command::Skipped { job: name.clone(), reason: SkipReason::Overlap, count: 1 }
}
