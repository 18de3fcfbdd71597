//! The plan of one job, with its pending runs.

use super::{
    backfill::PlannedBackfill,
    command::{Command, Due},
    missed::{self, Budget, PATIENCE},
    on_time::OnTimeRuns,
    peers::Peers,
    pending::{PendingRun, PendingRuns},
    room::Room,
};
use crate::{observer::SkipReason, options::Overlap, schedule::Schedule, terms::JobTerms, time::UtcTime};
use lock_core::{__private::Backoff, LockName};
use lock_ledger::{CatchUp, Skip};
use std::{mem, time::Duration};

#[derive(Debug)]
pub(super) struct PlannedJob {
    pub(super) schedule: Schedule,
    /// The fingerprint that identifies the schedule in the store.
    pub(super) identity: u64,
    pub(super) terms: JobTerms,
    pub(super) revision: u64,
    /// The revision of the instance's definition; 0 for a job in code.
    pub(super) definition: u64,
    pub(super) paused: bool,
    /// The time up to which scheduled times are decided or pending; `None` before the job is
    /// registered.
    pub(super) cursor: Option<UtcTime>,
    /// The first scheduled time after the cursor.
    pub(super) next: Option<UtcTime>,
    /// Set while several runs are due and have not been searched: the time between the first two.
    pub(super) behind: Option<Duration>,
    /// Set if the next on-time run queues behind the catch-up runs.
    pub(super) follows_catch_up: bool,
    pub(super) pending: PendingRuns,
    /// The backfills in the store, oldest first.
    pub(super) backfills: Vec<PlannedBackfill>,
    /// The runs that this node may start on time without being the leader.
    pub(super) on_time: OnTimeRuns,
    /// Set once this node knows that the job is in the store.
    pub(super) is_stored: bool,
    /// The time at which the watermark was last read.
    pub(super) observed: UtcTime,
    /// Set while the next scheduled time is left to other nodes.
    pub(super) left_to_others: bool,
    /// The time before which no claim is sent.
    pub(super) not_before: UtcTime,
    /// The back-off while other runs are open.
    pub(super) busy: Backoff,
}

impl PlannedJob {
    pub(super) fn decided_up_to(&mut self, cursor: UtcTime) {
        self.go_on_from(cursor, self.schedule.next_after(cursor));
    }

    fn go_on_from(&mut self, cursor: UtcTime, next: Option<UtcTime>) {
        (self.cursor, self.next, self.behind) = (Some(cursor), next, None);
    }

    /// Removes the front run after it was decided.
    pub(super) fn decided(&mut self) {
        self.pending.pop();
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

    /// Discards the plan until the watermark is known again.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        (self.cursor, self.next, self.behind, self.follows_catch_up) = (None, None, None, false);
        self.clear_backoff();
    }

    /// Makes the due run pending, according to the policies. Several due runs are left to
    /// [`look_back`](Self::look_back).
    pub(super) fn select_due(&mut self, name: &LockName, now: UtcTime, peers: Option<&Peers>, room: &Room) {
        let has_room = !room.is_full(&self.terms);
        if !has_room {
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
        // A run without room is planned immediately. It stays due until its grace is over or another node claims it.
        if self.is_spread() && has_room && !self.pending.has_scheduled() && !self.is_ours(name, first, peers)
        {
            self.left_to_others = true;
            return;
        }
        let second = self.schedule.next_after(first);
        match second.filter(|second| *second <= now) {
            Some(second) => self.behind = Some(second.since(first)),
            None => self.add_pending(now, missed::one(&self.terms, first, second, now)),
        }
    }

    /// Returns `true` if the leader claims a scheduled time itself: because it comes first, or
    /// because no node has claimed the run in time.
    fn is_ours(&self, name: &LockName, first: UtcTime, peers: Option<&Peers>) -> bool {
        peers.is_none_or(|peers| peers.is_first(name, first)) || first + PATIENCE <= self.observed
    }

    /// Makes the latest of several scheduled times pending, according to the policies, and counts
    /// the others.
    pub(super) fn look_back(&mut self, now: UtcTime, budget: &mut Budget) {
        if let (Some(cursor), Some(distance)) = (self.cursor, self.behind) {
            let come = missed::look_back(&self.schedule, &self.terms, cursor, now, distance, budget);
            self.add_pending(now, come);
        }
    }

    fn add_pending(&mut self, now: UtcTime, come: missed::LookBack) {
        self.go_on_from(now, come.next);
        if let Some(series) = come.skipped {
            self.pending.push(PendingRun::skipped(
                series.first,
                series.last,
                series.count,
                SkipReason::Missed,
            ));
        }
        let is_limited = matches!(self.terms.overlap, Overlap::Allow { .. });
        for instant in &come.start {
            let is_catch_up = instant.catch_up == CatchUp::Yes;
            let queues = is_catch_up || mem::take(&mut self.follows_catch_up);
            self.follows_catch_up |= is_catch_up && !is_limited;
            self.pending.push(PendingRun::scheduled(instant, queues));
        }
        match self.overlap_room() {
            None => self.pending.coalesce_on_time(),
            Some(room) => self.pending.skip_on_time_beyond(room),
        }
    }

    /// Returns the number of on-time runs that may wait behind catch-up runs. Returns `None` if the overlap policy
    /// keeps only the latest.
    fn overlap_room(&self) -> Option<usize> {
        match self.terms.overlap {
            Overlap::QueueOne | Overlap::CancelPrevious => None,
            Overlap::Skip => Some(1),
            Overlap::Allow { max } => {
                Some(usize::try_from(max).map_or(missed::MAX_STARTED, |max| max.min(missed::MAX_STARTED)))
            }
        }
    }

    /// Withdraws the pending runs that were not claimed in time, so that the misfire policy applies
    /// to them. Runs that wait for another run to end are kept, according to the overlap
    /// policy.
    fn requeue_late(&mut self, now: UtcTime) {
        let overtaken = self.next.is_some_and(|next| next <= now);
        if let Some(first) =
            self.pending.take_late(|until| overtaken || until.is_some_and(|until| until < now))
        {
            self.decided_up_to(first - Duration::from_millis(1));
        }
    }

    /// Claims the front run.
    pub(super) fn claim_next(
        &mut self,
        name: &LockName,
        now: UtcTime,
        room: &mut Room,
        out: &mut Vec<Command>,
    ) {
        if self.is_claiming() || self.not_before > now {
            return;
        }
        let takes_room = self.pending.needs_room();
        if takes_room && room.opens_at(&self.terms).is_none_or(|opens| opens > now) {
            return;
        }
        let Some(front) = self.pending.front().copied() else { return };
        let PendingRun { run, catch_up, queues, in_doubt, skip, .. } = front;
        let overlap = if queues { self.terms.overlap.queue_rule() } else { self.terms.overlap.rule() };
        let skip = skip.map(|series| Skip {
            first: series.first,
            count: series.count,
            detail: series.reason.detail().to_owned(),
        });
        if takes_room {
            room.take(&self.terms);
        }
        self.pending.in_flight = true;
        out.push(Command::Claim(Due {
            job: name.clone(),
            run,
            catch_up,
            overlap,
            pool: self.terms.pool.clone(),
            skip,
            after: None,
            not_after: front.not_after(),
            schedule: self.identity,
            revision: self.revision,
            definition: self.definition,
            in_doubt,
        }));
    }

    /// Returns the scheduled time of the next claim, by which jobs are sorted. Returns `None`, which
    /// sorts first, for a triggered run or if there is no claim. A backfill sorts last.
    pub(super) fn waits_since(&self) -> Option<UtcTime> {
        match self.pending.front() {
            Some(front) if front.run.backfill().is_some() => Some(UtcTime::from_micros(u64::MAX)),
            Some(front) => front.run.scheduled(),
            None => self.on_time.due_at(),
        }
    }

    /// Returns `true` while a claim is in flight.
    pub(super) fn is_claiming(&self) -> bool {
        self.pending.in_flight || self.on_time.is_in_flight()
    }

    /// Returns the time of the next tick for a leader's plan. Two changes need no tick, since they
    /// are events: the end of a run frees room, and a heartbeat shows whether other nodes have
    /// claimed a scheduled time.
    pub(super) fn wake_at(&self, room: &Room) -> Option<UtcTime> {
        let opens =
            if self.pending.needs_room() { room.opens_at(&self.terms) } else { Some(self.not_before) };
        let claims = !self.pending.is_empty() && !self.is_claiming();
        let claims = opens.filter(|_| claims).map(|opens| opens.max(self.not_before));
        claims.into_iter().chain(self.next.filter(|_| !self.paused && !self.left_to_others)).min()
    }
}
