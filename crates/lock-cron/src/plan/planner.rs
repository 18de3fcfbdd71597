//! The planner for a group of jobs, and the events that it handles.

use super::{
    ClaimOutcome, ClaimTerms, Command, Due, EffectiveControls,
    missed::Budget,
    pending::PendingRun,
    planned_job::{PlannedBackfill, PlannedJob},
    room::{Peers, Room},
};
use crate::{options::JobTerms, schedule::Schedule};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{ClaimReply, Registration, RunId};
use std::collections::BTreeMap;

/// The plan of a group of jobs.
#[derive(Debug)]
pub(crate) struct Planner {
    claims: ClaimTerms,
    pub(super) jobs: BTreeMap<LockName, PlannedJob>,
    leading: bool,
    draining: bool,
    /// `None` before the first heartbeat.
    peers: Option<Peers>,
    /// The room at the end of the last tick.
    room: Room,
}

impl Planner {
    /// Creates the plan of a node without jobs.
    pub(crate) fn new(claims: ClaimTerms) -> Self {
        let (leading, draining) = (false, false);
        Self { claims, jobs: BTreeMap::new(), leading, draining, peers: None, room: Room::default() }
    }

    /// Adds a job.
    pub(crate) fn add(&mut self, now: UtcTime, name: LockName, schedule: Schedule, terms: JobTerms) {
        self.jobs.insert(name, PlannedJob::new(now, schedule, terms));
    }

    /// Adds an instance, or replaces its definition and discards the previous plan.
    pub(crate) fn define(
        &mut self,
        now: UtcTime,
        name: &LockName,
        (terms, definition): (JobTerms, u64),
        controls: EffectiveControls,
    ) {
        let EffectiveControls { revision, paused, schedule } = controls;
        if !self.jobs.contains_key(name) {
            self.add(now, name.clone(), schedule.clone(), terms);
        }
        let Some(job) = self.jobs.get_mut(name) else { return };
        (job.identity, job.is_stored) = (schedule.identity(), true);
        (job.revision, job.paused, job.schedule, job.definition) = (revision, paused, schedule, definition);
        job.forget();
        job.on_time.restart();
    }

    /// Removes an instance.
    pub(crate) fn remove(&mut self, name: &LockName) {
        self.jobs.remove(name);
    }

    /// Starts this node's leadership. The watermarks arrive with [`registered`](Self::registered).
    pub(crate) fn elected(&mut self) {
        self.leading = true;
    }

    /// Ends this node's leadership. Claims in flight still complete.
    pub(crate) fn resigned(&mut self) {
        self.leading = false;
        for job in self.jobs.values_mut() {
            job.forget();
        }
    }

    /// Stops planning and claiming runs.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Returns the registration of a job.
    pub(crate) fn registration(&self, name: &LockName) -> Option<Registration> {
        let job = self.jobs.get(name)?;
        Some(Registration { job: name.clone(), schedule: job.identity })
    }

    /// Returns `true` if the job's watermark is unknown, which prevents planning.
    pub(crate) fn waits_for_watermark(&self, name: &LockName) -> bool {
        self.jobs.get(name).is_some_and(|job| job.cursor.is_none())
    }

    /// Sets the live nodes.
    pub(crate) fn peers_read(&mut self, peers: Peers) {
        self.peers = Some(peers);
    }

    /// Returns the jobs with a due run that another node may decide.
    pub(crate) fn undecided(&self, now: UtcTime) -> Vec<Registration> {
        let has_come = |job: &PlannedJob| {
            !job.on_time.due.is_empty()
                || job.pending.has_scheduled()
                || job.next.is_some_and(|next| next <= now)
        };
        let undecided = self.jobs.iter().filter(|(_, job)| job.is_spread() && has_come(job));
        undecided.map(|(name, job)| Registration { job: name.clone(), schedule: job.identity }).collect()
    }

    /// Handles the watermark of a job with this schedule, read at this time without registering the job.
    pub(crate) fn observed(
        &mut self,
        registration: &Registration,
        watermark: Option<UtcTime>,
        at: UtcTime,
        out: &mut Vec<Command>,
    ) {
        let leading = self.leading;
        let Some(job) = self.jobs.get_mut(&registration.job) else { return };
        match watermark {
            Some(watermark) => {
                job.is_stored = true;
                job.on_time.due.drop_decided(watermark);
                if job.cursor.is_some() {
                    self.registered(registration, watermark, at);
                }
            }
            None if leading && job.cursor.is_some() => {
                job.forget();
                out.push(Command::Register(registration.job.clone()));
            }
            None => {}
        }
    }

    /// Returns `true` if this node leads, and has no room for a run that only the leader may start.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.room.is_node_full()
            && self.leading
            && self.jobs.values().any(|job| job.pending.has_leaders_run())
    }

    /// Handles the watermark that a job with this schedule had at this time. Earlier scheduled
    /// times are no longer claimed.
    pub(crate) fn registered(&mut self, registration: &Registration, watermark: UtcTime, at: UtcTime) {
        let Some(job) = self.jobs.get_mut(&registration.job) else { return };
        // The controls changed the schedule in the meantime: another registration is in progress.
        if job.identity != registration.schedule {
            return;
        }
        job.is_stored = true;
        if job.cursor.is_none_or(|cursor| cursor < watermark) {
            job.decided_up_to(watermark);
        }
        job.pending.drop_decided(watermark);
        job.observed = job.observed.max(at);
    }

    /// Sets the controls of a job. Returns `true` if they changed: the plan is discarded, and the watermark must be
    /// read again.
    pub(crate) fn controls_changed(
        &mut self,
        name: &LockName,
        controls: EffectiveControls,
        out: &mut Vec<Command>,
    ) -> bool {
        let leading = self.leading;
        let EffectiveControls { revision, paused, schedule } = controls;
        let Some(job) = self.jobs.get_mut(name).filter(|job| job.revision != revision) else {
            return false;
        };
        job.identity = schedule.identity();
        (job.revision, job.paused, job.schedule) = (revision, paused, schedule);
        job.forget();
        job.on_time.restart();
        if leading {
            out.push(Command::Register(name.clone()));
        }
        true
    }

    /// Adds a triggered run.
    pub(crate) fn triggered(&mut self, name: &LockName, run: RunId) {
        let leading = self.leading;
        let Some(job) = self.jobs.get_mut(name) else { return };
        if leading && !job.pending.has(run) {
            job.pending.push(PendingRun::triggered(run));
        }
    }

    /// Sets the backfills of a job from the store, oldest first.
    pub(crate) fn backfills_read(&mut self, name: &LockName, read: Vec<PlannedBackfill>) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.backfills_read(read);
        }
    }

    /// Plans due runs; `room` is the number of further runs that this node may start. If the budget is spent, the
    /// remaining jobs wait for the next tick, for which [`wake_at`](Self::wake_at) returns a time in the past.
    pub(crate) fn tick(&mut self, now: UtcTime, room: u32, budget: &mut Budget, out: &mut Vec<Command>) {
        if self.draining {
            return;
        }
        // The store may already have granted these claims.
        let in_doubt = self.jobs.values().filter(|job| job.is_in_doubt()).count();
        let in_doubt = u32::try_from(in_doubt).unwrap_or(u32::MAX);
        let claiming = self.jobs.values().filter(|job| job.is_claiming()).map(|job| &job.terms);
        self.room.begin(room.saturating_sub(in_doubt), claiming);
        let room = &mut self.room;
        let leading = self.leading;
        let peers = self.peers.as_ref().filter(|peers| peers.are_known(now));
        for (name, job) in &mut self.jobs {
            if leading {
                job.select_due(name, now, peers, room);
                job.plan_backfill(name, out);
            }
            if job.is_spread() {
                job.select_on_time(now);
            }
        }
        // The runs that have waited longest for room come first.
        let mut jobs: Vec<_> = self.jobs.iter_mut().collect();
        jobs.sort_by_key(|(_, job)| job.waits_since());
        let mut behind = Vec::new();
        for (name, job) in jobs {
            job.claim_next(name, now, peers, room, &self.claims, out);
            behind.extend(job.behind.map(|distance| (distance, name, job)));
        }
        // A job with short intervals loses the most if it waits for another tick.
        behind.sort_by_key(|(distance, ..)| *distance);
        for (_, name, job) in behind {
            if budget.is_spent() {
                break;
            }
            job.look_back(now, budget);
            job.claim_next(name, now, peers, room, &self.claims, out);
        }
        room.end(now);
    }

    /// Handles the outcome of a claim.
    pub(crate) fn claim_answered(
        &mut self,
        now: UtcTime,
        due: &Due,
        outcome: ClaimOutcome,
        out: &mut Vec<Command>,
    ) {
        let Some(job) = self.jobs.get_mut(&due.request.job.name) else { return };
        match outcome {
            ClaimOutcome::Answered(ClaimReply::Claimed { .. }) => self.room.granted(&job.terms),
            ClaimOutcome::Answered(ClaimReply::PoolFull { .. }) => self.room.refused(&job.terms, now),
            _ => {}
        }
        job.claim_answered(now, due, &outcome, out);
    }

    /// Handles the end of a run on this node. Runs that waited for it may be claimed immediately.
    pub(crate) fn run_ended(&mut self, name: &LockName) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.pending.clear_backoff();
            self.room.run_ended(&job.terms);
        }
    }

    /// Returns the time of the next [`tick`](Self::tick).
    pub(crate) fn wake_at(&self) -> Option<UtcTime> {
        if self.draining {
            return None;
        }
        self.jobs.values().filter_map(|job| job.wake_at(&self.room)).min()
    }
}
