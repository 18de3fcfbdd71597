//! The plan of one job: its due and missed runs, the runs that this node may start on time, its backfills, and the
//! claims that it sends for them, one at a time.
//!
//! The diagram in [`super`] shows the runs that a leader plans. The runs of a spread job that a node starts on time,
//! whether or not it leads:
//!
//! ```text
//!         instant comes          first in the order, with room          claimed, skipped, decided elsewhere
//!  nothing ────────▶ due ──────────────────────────────────▶ in flight ────────────────────────────▶ nothing
//!                    │ ▲                                      │    │ behind, busy, late: for the leader  ▲
//!                    │ └── early · outdated · full · failed ────┘    └─────────────────────────────────────┤
//!                    └─ decided by the watermark, its grace is over, or a later instant comes ────────────┘
//! ```
//!
//! Invariants of these runs:
//! - each claim contains the previous scheduled time, and the store rejects it while that time is
//!   undecided, so no run is lost;
//! - a claim without a reply is repeated with the same id until there is one;
//! - a scheduled time that this node does not claim is left to the leader.
//!
//! Only the leader plans backfills: one run at a time, and only while no other run of the job is waiting. The store
//! keeps their progress and rejects a claim of a scheduled time that has already started, so a plan may be outdated.

use super::{
    ClaimOutcome, ClaimTerms, Command, Due,
    missed::{self, Budget, PATIENCE},
    pending::{PendingRun, PendingRuns},
    room::{CLAIM_RETRY_PAUSE, Peers, Room},
};
use crate::{
    observer::SkipReason,
    options::{JobTerms, Overlap, Placement},
    schedule::Schedule,
};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{CatchUp, ClaimReply, ClaimRequest, JobId, OverlapRule, RunId, Skip};
use std::{mem, time::Duration};
use uuid::Uuid;

/// The plan of one job.
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
    follows_catch_up: bool,
    pub(super) pending: PendingRuns,
    /// The backfills in the store, oldest first.
    backfills: Vec<PlannedBackfill>,
    /// The runs that this node may start on time without being the leader.
    pub(super) on_time: OnTimeRuns,
    /// Set once this node knows that the job is in the store.
    pub(super) is_stored: bool,
    /// The time at which the watermark was last read.
    pub(super) observed: UtcTime,
    /// Set while the next scheduled time is left to other nodes.
    left_to_others: bool,
}

impl PlannedJob {
    pub(super) fn new(now: UtcTime, schedule: Schedule, terms: JobTerms) -> Self {
        Self {
            identity: schedule.identity(),
            schedule,
            terms,
            revision: 0,
            definition: 0,
            paused: false,
            cursor: None,
            next: None,
            behind: None,
            follows_catch_up: false,
            pending: PendingRuns::default(),
            backfills: Vec::new(),
            on_time: OnTimeRuns::default(),
            is_stored: false,
            observed: now,
            left_to_others: false,
        }
    }

    pub(super) fn is_spread(&self) -> bool {
        self.terms.placement == Placement::Spread
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

    /// Makes the next run due once its time has come. If several are due, as after a suspension, they are left to the
    /// leader.
    pub(super) fn select_on_time(&mut self, now: UtcTime) {
        let runs = &mut self.on_time;
        if !runs.begun {
            (runs.begun, runs.next) = (true, self.schedule.next_after(now));
        }
        let come = runs.next.filter(|next| *next <= now);
        // The leader has already planned it.
        let is_planned = |at| self.cursor.is_some_and(|cursor| cursor >= at);
        let is_over = runs.due.front().is_some_and(|run| run.until.is_some_and(|until| until < now));
        if come.is_some() || is_over || runs.due_at().is_some_and(is_planned) {
            runs.discard();
        }
        let Some(at) = come else { return };
        let second = self.schedule.next_after(at);
        if second.is_some_and(|second| second <= now) {
            runs.next = self.schedule.next_after(now);
            return;
        }
        runs.next = second;
        let until = at + missed::grace(&self.terms, at, second);
        let is_the_leaders = is_planned(at) || self.pending.has_scheduled();
        if !self.paused && !is_the_leaders && runs.due.is_empty() && now <= until {
            runs.is_for_others = false;
            runs.due.clear_backoff();
            runs.due
                .push(PendingRun::scheduled(&missed::DueInstant { at, catch_up: CatchUp::No, until }, false));
        }
    }

    /// Sets the backfills from the store, oldest first. A mark raised by the reply to a claim is
    /// kept, even if this read began before that reply.
    pub(super) fn backfills_read(&mut self, read: Vec<PlannedBackfill>) {
        let known = mem::replace(&mut self.backfills, read);
        for backfill in &mut self.backfills {
            let before = known.iter().find(|before| before.id == backfill.id);
            backfill.mark = before.map_or(backfill.mark, |before| before.mark.max(backfill.mark));
        }
    }

    /// Makes the next scheduled time of the oldest backfill pending, unless another run is waiting.
    pub(super) fn plan_backfill(&mut self, name: &LockName, out: &mut Vec<Command>) {
        self.pending.give_way();
        // Scheduled times that passed without a leader only become pending once the watermark has
        // been read and they have been found by a search.
        let knows_waiting = self.cursor.is_some() && self.behind.is_none();
        let waits = !self.pending.is_empty() || !self.on_time.due.is_empty();
        if self.paused || waits || !knows_waiting {
            return;
        }
        while let Some(PlannedBackfill { id, schedule, mark, last }) = self.backfills.first() {
            if let Some(at) = schedule.next_after(*mark).filter(|at| at <= last) {
                let run = RunId::Backfill { id: *id, at };
                let queues = !matches!(self.terms.overlap, Overlap::Allow { .. });
                self.pending.push(PendingRun::backfill(run, queues));
                return;
            }
            // According to this node's zone data, there are no further scheduled times.
            out.push(Command::CloseBackfill { job: name.clone(), id: *id });
            self.backfills.remove(0);
        }
    }

    /// Claims the front run of the leader's plan, or the run that is due on time if this node is the first one with
    /// room.
    pub(super) fn claim_next(
        &mut self,
        name: &LockName,
        now: UtcTime,
        peers: Option<&Peers>,
        room: &mut Room,
        claims: &ClaimTerms,
        out: &mut Vec<Command>,
    ) {
        if self.is_claiming() {
            return;
        }
        if let Some(at) = self.on_time.due_at().filter(|_| !self.on_time.due.is_in_doubt()) {
            let is_first = peers.is_some_and(|peers| peers.is_first(name, at));
            self.on_time.is_for_others = room.is_node_full() || !is_first;
        }
        let is_open = |runs: &PendingRuns| runs.opens_at(&self.terms, room).is_some_and(|opens| opens <= now);
        let (runs, after) = if is_open(&self.pending) {
            (&mut self.pending, None)
        } else if is_open(&self.on_time.due) && !self.on_time.is_for_others {
            let after = self.before_on_time();
            (&mut self.on_time.due, Some(after))
        } else {
            return;
        };
        let Some(front) = runs.front().copied() else { return };
        if front.needs_room() {
            room.take(&self.terms);
        }
        runs.in_flight = true;
        let overlap = if front.queues { self.terms.overlap.queue_rule() } else { self.terms.overlap.rule() };
        let skip = front.skip.map(|series| Skip {
            first: series.first,
            count: series.count,
            detail: series.reason.detail().to_owned(),
        });
        let request = ClaimRequest {
            job: JobId { group: claims.group.clone(), name: name.clone() },
            run: front.run,
            claim: front.in_doubt.unwrap_or_else(claims.draw),
            retry_of: None,
            skip,
            after,
            not_after: front.not_after(),
            schedule: self.identity,
            revision: self.revision,
            definition: self.definition,
            overlap,
            pool: self.terms.pool.clone(),
            lease: claims.lease,
            node: claims.node.clone(),
            catch_up: front.catch_up,
            history: claims.history,
        };
        out.push(Command::Claim(Due { request: Box::new(request), in_doubt: front.in_doubt.is_some() }));
    }

    /// Handles the outcome of a claim.
    pub(super) fn claim_answered(
        &mut self,
        now: UtcTime,
        due: &Due,
        outcome: &ClaimOutcome,
        out: &mut Vec<Command>,
    ) {
        self.backfill_answered(due, outcome, out);
        // Only the claim of the run that is due on time names the scheduled time before it.
        let (job, is_on_time) = (&due.request.job.name, due.request.after.is_some());
        let runs = if is_on_time { &mut self.on_time.due } else { &mut self.pending };
        let Some(run) = runs.answered(due, outcome) else { return };
        let ClaimOutcome::Answered(reply) = outcome else {
            runs.not_before = now + CLAIM_RETRY_PAUSE;
            return;
        };
        self.is_stored |= *reply != ClaimReply::Unregistered;
        let waiting = runs.count();
        let (reason, count) =
            run.skip.map_or((SkipReason::Overlap, 1), |series| (series.reason, series.count));
        let mut skipped = |reason, count| out.push(Command::Skipped { job: job.clone(), reason, count });
        match reply {
            ClaimReply::Claimed { .. } => self.decided(&due.request),
            ClaimReply::Skipped => {
                skipped(reason, count);
                self.decided(&due.request);
            }
            ClaimReply::Expired => {
                skipped(SkipReason::Expired, 1);
                self.decided(&due.request);
            }
            ClaimReply::Duplicate | ClaimReply::Superseded | ClaimReply::Gone => {
                skipped(SkipReason::DecidedElsewhere, count);
                self.decided(&due.request);
            }
            ClaimReply::Busy { .. } => {
                if due.request.overlap == OverlapRule::Replace {
                    out.push(Command::CancelRunning(job.clone()));
                }
                if is_on_time {
                    self.leave_to_leader();
                } else {
                    runs.back_off(now);
                }
            }
            ClaimReply::Behind | ClaimReply::Late if is_on_time => self.leave_to_leader(),
            // The run stays due. The pool delays the next claim of any of its jobs.
            ClaimReply::PoolFull { .. } if !due.in_doubt => {}
            // A claim in doubt needs no room, since the store may have granted it. A run on time asks again soon,
            // before its grace ends.
            ClaimReply::PoolFull { .. } if !is_on_time => runs.back_off(now),
            ClaimReply::Early { wait } => runs.not_before = now + *wait,
            ClaimReply::Paused | ClaimReply::Outdated => {
                runs.not_before = now + CLAIM_RETRY_PAUSE;
                out.push(Command::ReadControls);
            }
            // Another node has started or skipped a part of the series. The rest is counted again.
            ClaimReply::PartlyDecided if !is_on_time => self.start_over(job, out),
            ClaimReply::Unregistered if !is_on_time => {
                skipped(SkipReason::DataLoss, waiting);
                self.start_over(job, out);
            }
            ClaimReply::Unregistered => {
                // Until a leader has registered a new job, it has no scheduled times.
                if self.is_stored {
                    skipped(SkipReason::DataLoss, waiting);
                }
                self.on_time.due.clear();
                if self.cursor.is_some() {
                    self.start_over(job, out);
                }
            }
            // If the run is late, the next tick applies the misfire policy.
            _ => runs.not_before = now + CLAIM_RETRY_PAUSE,
        }
    }

    /// Removes a run that was decided, and marks all scheduled times up to it as decided.
    fn decided(&mut self, request: &ClaimRequest) {
        if request.after.is_some() {
            self.on_time.due.clear()
        } else {
            self.pending.pop()
        }
        let Some(at) = request.run.scheduled() else { return };
        if self.cursor.is_some_and(|cursor| cursor < at) {
            self.decided_up_to(at);
        }
        self.pending.drop_decided(at);
    }

    /// Leaves the run that was due on time to the leader, which makes up for earlier scheduled times, queues the run,
    /// or applies the misfire policy. If this node is the leader, it does so immediately.
    fn leave_to_leader(&mut self) {
        let at = self.on_time.due_at();
        self.on_time.due.clear();
        self.observed = at.map_or(self.observed, |at| self.observed.max(at + PATIENCE));
    }

    /// Discards the plan, and reads the watermark again.
    fn start_over(&mut self, name: &LockName, out: &mut Vec<Command>) {
        self.forget();
        out.push(Command::Register(name.clone()));
    }

    /// Returns the scheduled time before the run that is due on time.
    fn before_on_time(&self) -> UtcTime {
        let distance = |at| self.on_time.next.map_or(missed::LAST_GRACE, |next| next.since(at));
        let before = self.on_time.due_at().and_then(|at| missed::previous(&self.schedule, at, distance(at)));
        before.unwrap_or(UtcTime::from_millis(0))
    }

    /// Handles the outcome of a claim for a backfill run.
    fn backfill_answered(&mut self, due: &Due, outcome: &ClaimOutcome, out: &mut Vec<Command>) {
        let (RunId::Backfill { id, at }, ClaimOutcome::Answered(reply)) = (due.request.run, outcome) else {
            return;
        };
        match reply {
            ClaimReply::Claimed { .. } | ClaimReply::Skipped | ClaimReply::Gone => {
                if let Some(backfill) = self.backfills.iter_mut().find(|backfill| backfill.id == id) {
                    backfill.mark = backfill.mark.max(at);
                }
            }
            // The backfill was withdrawn, or another leader started the scheduled time.
            ClaimReply::Duplicate | ClaimReply::Superseded => {
                self.backfills.retain(|backfill| backfill.id != id);
                out.push(Command::ReadControls);
            }
            _ => {}
        }
    }

    pub(super) fn decided_up_to(&mut self, cursor: UtcTime) {
        self.go_on_from(cursor, self.schedule.next_after(cursor));
    }

    fn go_on_from(&mut self, cursor: UtcTime, next: Option<UtcTime>) {
        (self.cursor, self.next, self.behind) = (Some(cursor), next, None);
    }

    /// Discards the plan until the watermark is known again.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        (self.cursor, self.next, self.behind, self.follows_catch_up) = (None, None, None, false);
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
        self.pending.in_flight || self.on_time.due.in_flight
    }

    /// Returns `true` if the store may already have granted a claim.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.pending.is_in_doubt() || self.on_time.due.is_in_doubt()
    }

    /// Returns the time of the next tick for this job. Two changes need no tick, since they are events: the end of a
    /// run frees room, and a heartbeat shows whether other nodes have claimed a scheduled time.
    pub(super) fn wake_at(&self, room: &Room) -> Option<UtcTime> {
        let opens_at = |runs: &PendingRuns| runs.opens_at(&self.terms, room).filter(|_| !self.is_claiming());
        let next = self.next.filter(|_| !self.paused && !self.left_to_others);
        let on_time = opens_at(&self.on_time.due).filter(|_| !self.on_time.is_for_others);
        [opens_at(&self.pending), next, on_time, self.on_time.next].into_iter().flatten().min()
    }
}

/// An unfinished backfill.
#[derive(Debug, Clone)]
pub(crate) struct PlannedBackfill {
    pub(crate) id: Uuid,
    pub(crate) schedule: Schedule,
    /// The scheduled time up to which runs were started.
    pub(crate) mark: UtcTime,
    pub(crate) last: UtcTime,
}

/// The runs that this node may start on time.
#[derive(Debug, Default)]
pub(super) struct OnTimeRuns {
    /// Set once `next` is known.
    begun: bool,
    /// The first scheduled time in the future.
    next: Option<UtcTime>,
    /// The run that is due, if any.
    pub(super) due: PendingRuns,
    /// Set while another node comes first, or while this node has no room.
    is_for_others: bool,
}

impl OnTimeRuns {
    /// Starts over at the next tick, with the schedule that applies then.
    pub(super) fn restart(&mut self) {
        self.begun = false;
        self.discard();
    }

    /// Drops the due run, unless the store may already have its claim.
    fn discard(&mut self) {
        if !self.due.in_flight && !self.due.is_in_doubt() {
            self.due.clear();
        }
    }

    /// Returns the scheduled time that is due.
    fn due_at(&self) -> Option<UtcTime> {
        self.due.front()?.run.scheduled()
    }
}
