//! The runs of a job that this node may start on time, whether or not it leads.
//!
//! ```text
//!         instant comes          first in the order, with room          claimed, skipped, decided elsewhere
//!  nothing ────────▶ due ──────────────────────────────────▶ in flight ────────────────────────────▶ nothing
//!                    │ ▲                                      │    │ behind, busy, late: for the leader  ▲
//!                    │ └── early · outdated · full · failed ────┘    └─────────────────────────────────────┤
//!                    └─ decided by the watermark, its grace is over, or a later instant comes ────────────┘
//! ```
//!
//! Invariants:
//! - each claim contains the previous scheduled time, and the store rejects it while that time is
//!   undecided, so no run is lost;
//! - a claim without a reply is repeated with the same id until there is one;
//! - a scheduled time that this node does not claim is left to the leader.

use super::{
    command::{ClaimOutcome, Command, Due},
    missed,
    peers::Peers,
    planned_job::PlannedJob,
    room::{CLAIM_RETRY_PAUSE, Room},
};
use crate::{observer::SkipReason, options::Placement, time::UtcTime};
use lock_core::LockName;
use lock_ledger::{CatchUp, ClaimId, ClaimReply, OverlapRule, RunId};

/// The runs that this node may start on time.
#[derive(Debug, Default)]
pub(super) struct OnTimeRuns {
    /// Set once `next` is known.
    begun: bool,
    /// The first scheduled time in the future.
    next: Option<UtcTime>,
    due: Option<OnTimeRun>,
}

#[derive(Debug, Clone, Copy)]
struct OnTimeRun {
    at: UtcTime,
    /// The end of its grace.
    until: UtcTime,
    /// The time before which no claim is sent.
    not_before: UtcTime,
    in_flight: bool,
    /// The claim of an earlier request that may still be applied.
    in_doubt: Option<ClaimId>,
    /// Set while another node comes first, or while this node has no room.
    is_for_others: bool,
}

impl OnTimeRun {
    /// Returns `true` if the store may already have the claim.
    fn may_be_ours(&self) -> bool {
        self.in_flight || self.in_doubt.is_some()
    }
}

impl OnTimeRuns {
    /// Starts over at the next tick, with the schedule that applies then.
    pub(super) fn restart(&mut self) {
        self.begun = false;
        self.discard();
    }

    fn discard(&mut self) {
        self.due = self.due.filter(OnTimeRun::may_be_ours);
    }

    /// Returns the scheduled time that is due.
    pub(super) fn due_at(&self) -> Option<UtcTime> {
        self.due.map(|run| run.at)
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.due.is_some_and(|run| run.in_flight)
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.due.is_some_and(|run| run.in_doubt.is_some() && !run.in_flight)
    }

    /// Drops the due run if this watermark decides it, unless the store may already have its claim.
    pub(super) fn drop_decided(&mut self, watermark: UtcTime) {
        self.due = self.due.filter(|run| run.at > watermark || run.may_be_ours());
    }
}

impl PlannedJob {
    pub(super) fn is_spread(&self) -> bool {
        self.terms.placement == Placement::Spread
    }

    /// Returns the time of the next tick for the on-time runs.
    pub(super) fn wake_on_time_at(&self, room: &Room) -> Option<UtcTime> {
        let claimable = |run: &OnTimeRun| !run.in_flight && !run.is_for_others && !self.pending.in_flight;
        let claim = self.on_time.due.filter(claimable).and_then(|run| {
            let opens =
                if run.in_doubt.is_some() { Some(run.not_before) } else { room.opens_at(&self.terms) };
            opens.map(|opens| opens.max(run.not_before))
        });
        claim.into_iter().chain(self.on_time.next).min()
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
        if come.is_some() || runs.due.is_some_and(|run| run.until < now || is_planned(run.at)) {
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
        if !self.paused && !is_the_leaders && runs.due.is_none() && now <= until {
            let (not_before, in_doubt) = (UtcTime::default(), None);
            let (in_flight, is_for_others) = (false, false);
            runs.due = Some(OnTimeRun { at, until, not_before, in_flight, in_doubt, is_for_others });
        }
    }

    /// Claims the due run if this node is the first one with room.
    pub(super) fn claim_on_time(
        &mut self,
        name: &LockName,
        now: UtcTime,
        peers: Option<&Peers>,
        room: &mut Room,
        out: &mut Vec<Command>,
    ) {
        let (in_flight, next) = (self.pending.in_flight, self.on_time.next);
        let Some(run) = self.on_time.due.as_mut().filter(|run| !run.in_flight && !in_flight) else { return };
        if run.in_doubt.is_none() {
            run.is_for_others =
                room.is_node_full() || peers.is_none_or(|peers| !peers.is_first(name, run.at));
        }
        if run.is_for_others || run.not_before > now {
            return;
        }
        if run.in_doubt.is_none() {
            if room.opens_at(&self.terms).is_none_or(|opens| opens > now) {
                return;
            }
            room.take(&self.terms);
        }
        run.in_flight = true;
        let distance = next.map_or(missed::LAST_GRACE, |next| next.since(run.at));
        let before = missed::previous(&self.schedule, run.at, distance);
        out.push(Command::Claim(Due {
            job: name.clone(),
            run: RunId::Scheduled(run.at),
            catch_up: CatchUp::No,
            overlap: self.terms.overlap.rule(),
            pool: self.terms.pool.clone(),
            skip: None,
            after: Some(before.unwrap_or(UtcTime::from_millis(0))),
            not_after: Some(run.until),
            schedule: self.identity,
            revision: self.revision,
            definition: self.definition,
            in_doubt: run.in_doubt,
        }));
    }

    /// Handles the outcome of a claim for an on-time run.
    pub(super) fn on_time_answered(
        &mut self,
        now: UtcTime,
        due: &Due,
        outcome: ClaimOutcome,
        out: &mut Vec<Command>,
    ) {
        let Some(at) = due.run.scheduled() else { return };
        let Some(run) = self.on_time.due.as_mut().filter(|run| run.in_flight && run.at == at) else { return };
        (run.in_flight, run.in_doubt) = (false, due.in_doubt);
        self.is_stored |=
            matches!(&outcome, ClaimOutcome::Answered(reply) if *reply != ClaimReply::Unregistered);
        let mut skipped = |reason| out.push(Command::Skipped { job: due.job.clone(), reason, count: 1 });
        match outcome {
            ClaimOutcome::Answered(ClaimReply::Claimed { .. }) => self.on_time_decided(at),
            ClaimOutcome::Answered(ClaimReply::Skipped) => {
                skipped(SkipReason::Overlap);
                self.on_time_decided(at);
            }
            ClaimOutcome::Answered(ClaimReply::Duplicate | ClaimReply::Superseded | ClaimReply::Gone) => {
                skipped(SkipReason::DecidedElsewhere);
                self.on_time_decided(at);
            }
            // The leader makes up for the earlier scheduled times, queues this run, or applies the misfire policy. If
            // this node is the leader, it does so immediately.
            ClaimOutcome::Answered(
                reply @ (ClaimReply::Behind | ClaimReply::Busy { .. } | ClaimReply::Late),
            ) => {
                self.on_time.due = None;
                self.observed = self.observed.max(at + missed::PATIENCE);
                if matches!(reply, ClaimReply::Busy { .. }) && due.overlap == OverlapRule::Replace {
                    out.push(Command::CancelRunning(due.job.clone()));
                }
            }
            // The run stays due here, and the leader notices that it is unclaimed. The pool delays the next claim,
            // unless an earlier request is in doubt.
            ClaimOutcome::Answered(ClaimReply::PoolFull { .. }) if due.in_doubt.is_none() => {}
            ClaimOutcome::Answered(ClaimReply::Early { wait }) => run.not_before = now + wait,
            ClaimOutcome::Answered(ClaimReply::Paused | ClaimReply::Outdated) => {
                run.not_before = now + CLAIM_RETRY_PAUSE;
                out.push(Command::ReadControls);
            }
            ClaimOutcome::Answered(ClaimReply::Unregistered) => {
                // Until a leader has registered a new job, it has no scheduled times.
                if self.is_stored {
                    skipped(SkipReason::DataLoss);
                }
                self.on_time.due = None;
                if self.cursor.is_some() {
                    self.forget();
                    out.push(Command::Register(due.job.clone()));
                }
            }
            _ => run.not_before = now + CLAIM_RETRY_PAUSE,
        }
    }

    /// Marks all scheduled times up to this one as decided: its claim was accepted, or refused as
    /// already decided.
    fn on_time_decided(&mut self, at: UtcTime) {
        self.on_time.due = None;
        if self.cursor.is_some_and(|cursor| cursor < at) {
            self.decided_up_to(at);
        }
        self.pending.drop_decided(at);
    }
}
