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
    missed,
    pending::{PendingRun, PendingRuns},
    planned_job::PlannedJob,
};
use crate::{options::Placement, time::UtcTime};
use lock_ledger::CatchUp;

/// The runs that this node may start on time.
#[derive(Debug, Default)]
pub(super) struct OnTimeRuns {
    /// Set once `next` is known.
    begun: bool,
    /// The first scheduled time in the future.
    pub(super) next: Option<UtcTime>,
    /// The run that is due, if any.
    pub(super) due: PendingRuns,
    /// Set while another node comes first, or while this node has no room.
    pub(super) is_for_others: bool,
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
    pub(super) fn due_at(&self) -> Option<UtcTime> {
        self.due.front()?.run.scheduled()
    }
}

impl PlannedJob {
    pub(super) fn is_spread(&self) -> bool {
        self.terms.placement == Placement::Spread
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
}
