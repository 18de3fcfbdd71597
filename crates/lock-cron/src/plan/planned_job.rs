//! The plan of one job: its pending runs.

use super::{
    backfill::PlannedBackfill,
    command::{Command, Due},
    missed::{self, Budget, PATIENCE},
    on_time::OnTimeRuns,
    peers::Peers,
    pending::{PendingRun, PendingRuns},
};
use crate::{
    observer::SkipReason,
    options::{Overlap, Scope},
    schedule::Schedule,
    terms::JobTerms,
    time::UtcTime,
};
use lock_core::{__private::Backoff, LockName};
use lock_ledger::{CatchUp, Skip};
use std::{mem, time::Duration};

/// The delay before a claim is sent again.
pub(super) const CLAIM_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The back-off of a claim while other runs are open. It ends when a run of this node ends.
pub(super) const BUSY: Backoff = Backoff::new(CLAIM_RETRY_PAUSE, Duration::from_secs(5));

#[derive(Debug)]
pub(super) struct PlannedJob {
    pub(super) schedule: Schedule,
    /// The fingerprint that identifies the schedule in the store.
    pub(super) identity: u64,
    pub(super) terms: JobTerms,
    pub(super) revision: u64,
    /// The revision of the definition of an instance; 0 for a job in code.
    pub(super) definition: u64,
    pub(super) paused: bool,
    /// The time up to which instants are decided or pending; `None` before the job is registered.
    pub(super) cursor: Option<UtcTime>,
    /// The first instant after the cursor.
    pub(super) next: Option<UtcTime>,
    /// The distance between the first two of several instants that have come and are not looked back at yet.
    pub(super) behind: Option<Duration>,
    /// Set if the next run that is on time queues behind the catch-up runs.
    pub(super) follows_catch_up: bool,
    pub(super) pending: PendingRuns,
    /// The backfills in the store, oldest first.
    pub(super) backfills: Vec<PlannedBackfill>,
    /// The runs that this node may start on time without leading.
    pub(super) on_time: OnTimeRuns,
    /// The last time at which the watermark was read.
    pub(super) observed: UtcTime,
    /// Set while the next instant is left to other nodes.
    pub(super) left_to_others: bool,
    /// The time before which no claim is sent.
    pub(super) not_before: UtcTime,
    /// The back-off while other runs are open.
    pub(super) busy: Backoff,
    /// The number of runs on this node; counted for a job of each node.
    pub(super) running: u32,
}

impl PlannedJob {
    pub(super) fn decided_up_to(&mut self, cursor: UtcTime) {
        self.go_on_from(cursor, self.schedule.next_after(cursor));
    }

    fn go_on_from(&mut self, cursor: UtcTime, next: Option<UtcTime>) {
        (self.cursor, self.next, self.behind) = (Some(cursor), next, None);
    }

    /// Removes the front run, which is decided.
    pub(super) fn decided(&mut self) {
        self.pending.pop();
        self.clear_backoff();
    }

    /// Allows the next claim at once.
    pub(super) fn clear_backoff(&mut self) {
        self.not_before = UtcTime::from_millis(i64::MIN);
        self.busy.reset();
    }

    /// Delays the next claim while other runs are open. Each such answer doubles the delay.
    pub(super) fn back_off(&mut self, now: UtcTime) {
        self.not_before = now.saturating_add(self.busy.next_wait());
    }

    /// Discards the plan until the watermark is known again.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        (self.cursor, self.next, self.behind, self.follows_catch_up) = (None, None, None, false);
        self.clear_backoff();
    }

    /// Makes the instant that has come pending, according to the policies. Several instants are left to
    /// [`look_back`](Self::look_back).
    pub(super) fn select_due(
        &mut self,
        name: &LockName,
        now: UtcTime,
        peers: Option<&Peers>,
        room: u32,
        out: &mut Vec<Command>,
    ) {
        if room == 0 && self.terms.scope == Scope::Fleet && !self.pending.has_queue() {
            let overtaken = self.next.is_some_and(|next| next <= now);
            self.pending.skip_without_room(|until| overtaken || until.is_some_and(|until| until < now));
        }
        self.requeue_late(now);
        self.left_to_others = false;
        let Some(first) = self.next.filter(|next| *next <= now && self.behind.is_none()) else { return };
        if self.paused {
            self.decided_up_to(now);
            return;
        }
        // Without room, it is planned at once: it stays due until its grace is over, or another node claims it.
        if self.is_spread() && room > 0 && !self.pending.has_scheduled() && !self.is_ours(name, first, peers)
        {
            self.left_to_others = true;
            return;
        }
        let second = self.schedule.next_after(first);
        match second.filter(|second| *second <= now) {
            Some(second) => self.behind = Some(second.since(first)),
            None => self.add_pending(name, now, missed::one(&self.terms, first, second, now), out),
        }
    }

    /// Returns `true` if the leader takes an instant itself: as its first node, or since no node has claimed it.
    fn is_ours(&self, name: &LockName, first: UtcTime, peers: Option<&Peers>) -> bool {
        peers.is_none_or(|peers| peers.is_first(name, first))
            || first.saturating_add(PATIENCE) <= self.observed
    }

    /// Makes the latest of several instants pending, according to the policies, and counts the others.
    pub(super) fn look_back(
        &mut self,
        name: &LockName,
        now: UtcTime,
        budget: &mut Budget,
        out: &mut Vec<Command>,
    ) {
        if let (Some(cursor), Some(distance)) = (self.cursor, self.behind) {
            let come = missed::look_back(&self.schedule, &self.terms, cursor, now, distance, budget);
            self.add_pending(name, now, come, out);
        }
    }

    fn add_pending(&mut self, name: &LockName, now: UtcTime, come: missed::LookBack, out: &mut Vec<Command>) {
        self.go_on_from(now, come.next);
        if let Some(row) = come.skipped {
            self.pending.push(PendingRun::skipped(row.first, row.last, row.count, SkipReason::Missed));
        }
        for instant in &come.start {
            let is_catch_up = instant.catch_up == CatchUp::Yes;
            let queues = is_catch_up || mem::take(&mut self.follows_catch_up);
            self.follows_catch_up |= is_catch_up;
            self.pending.push(PendingRun::scheduled(instant, queues));
        }
        match self.overlap_room() {
            None => self.pending.coalesce_on_time(),
            Some(room) => self.pending.skip_on_time_beyond(room),
        }
        if self.terms.scope == Scope::PerNode {
            let skips = self.pending.take_skips().into_iter();
            out.extend(skips.map(|(reason, count)| Command::Skipped { job: name.clone(), reason, count }));
        }
    }

    /// Returns the number of on-time runs that may wait behind catch-up runs; `None` if the overlap policy keeps the
    /// latest.
    fn overlap_room(&self) -> Option<usize> {
        match self.terms.overlap {
            Overlap::QueueOne | Overlap::CancelPrevious => None,
            Overlap::Skip => Some(1),
            Overlap::Allow { max } => {
                Some(usize::try_from(max).map_or(missed::MAX_STARTED, |max| max.min(missed::MAX_STARTED)))
            }
        }
    }

    /// Takes back the pending runs that were not claimed in time: the misfire policy decides about them again. Runs
    /// that wait for another run to end are kept, according to the overlap policy.
    fn requeue_late(&mut self, now: UtcTime) {
        if self.overlap_room().is_none() || self.pending.has_queue() {
            return;
        }
        let overtaken = self.next.is_some_and(|next| next <= now);
        if let Some(first) =
            self.pending.take_late(|until| overtaken || until.is_some_and(|until| until < now))
        {
            self.decided_up_to(first.saturating_sub(Duration::from_millis(1)));
        }
    }

    /// Claims the front run.
    pub(super) fn claim_next(
        &mut self,
        name: &LockName,
        now: UtcTime,
        room: &mut u32,
        out: &mut Vec<Command>,
    ) {
        if self.pending.in_flight || self.not_before > now || self.on_time.is_in_flight() {
            return;
        }
        let takes_room = self.terms.scope == Scope::Fleet && self.pending.needs_room();
        if takes_room && *room == 0 {
            return;
        }
        let Some(PendingRun { run, catch_up, queues, in_doubt, skip, .. }) = self.pending.front().copied()
        else {
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
            after: None,
            schedule: self.identity,
            revision: self.revision,
            definition: self.definition,
            in_doubt,
        };
        if self.terms.scope == Scope::Fleet {
            *room -= u32::from(takes_room);
            self.pending.in_flight = true;
            out.push(Command::Claim(due));
            return;
        }
        // The overlaps of a job of each node are decided here.
        match overlap {
            Overlap::QueueOne | Overlap::CancelPrevious if self.running > 0 => {
                self.not_before = now.saturating_add(CLAIM_RETRY_PAUSE);
                if overlap == Overlap::CancelPrevious {
                    out.push(Command::CancelRunning(name.clone()));
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

    /// Returns the time of the next tick for the plan of a leader, or of a job of each node. The end of a run gives
    /// room, and a heartbeat tells whether other nodes have claimed an instant: both are events.
    pub(super) fn wake_at(&self, is_full: bool) -> Option<UtcTime> {
        let is_stuck = is_full && self.terms.scope == Scope::Fleet && self.pending.needs_room();
        let in_flight = self.pending.in_flight || self.on_time.is_in_flight();
        let claims = (!self.pending.is_empty() && !in_flight && !is_stuck).then_some(self.not_before);
        claims.into_iter().chain(self.next.filter(|_| !self.paused && !self.left_to_others)).min()
    }
}

fn overlapped(name: &LockName) -> Command {
    Command::Skipped { job: name.clone(), reason: SkipReason::Overlap, count: 1 }
}
