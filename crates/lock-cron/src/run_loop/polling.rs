//! Repeated requests: registrations, heartbeats, open runs, renewals.

use super::{
    beats::HEARTBEAT_INTERVAL,
    effect::{Effect, panicked},
    phase::Phase,
    state::RunLoop,
};
use crate::{
    description::{describe, describe_kind},
    ledger_client::NO_REVISION,
    observer::CronEvent,
    plan::NODE_LEASE,
    running::HeldRun,
};
use lock_core::LockName;
use lock_ledger::{JobDescription, LiveNode, Registration, RenewRun};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The time between the registrations of a leader.
pub(super) const REGISTRATION_INTERVAL: Duration = Duration::from_secs(60);

/// The maximum interval of a repeated request, regardless of the leases.
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

impl RunLoop {
    /// Sends the requests that are due.
    pub(super) fn poll_ledger(&mut self) {
        let now = Instant::now();
        let is_member = self.phase == Phase::Running && self.is_member();
        if is_member && now >= self.timers.heartbeat && !self.heartbeat_in_flight {
            self.send_heartbeat();
        }
        if self.leadership.is_some() && now >= self.timers.open_runs {
            self.timers.open_runs = self.timers.beats.within(now, self.third_of_a_run_lease());
            self.read_open_runs();
        }
        if is_member && self.declined.look_again.take_if(|at| *at <= now).is_some() {
            self.read_open_runs();
        }
        if self.leadership.is_some() && now >= self.timers.registration {
            self.timers.registration = self.timers.beats.within(now, REGISTRATION_INTERVAL);
            self.read_successes();
            self.describe_kinds();
            // A job without a watermark already has a registration in progress.
            let mut jobs = self.job_names();
            jobs.retain(|job| !self.is_instance(job) && !self.planner.waits_for_watermark(job));
            if !jobs.is_empty() {
                self.register(&jobs, Duration::ZERO);
            }
        }
        if now >= self.timers.renewal && !self.renewing {
            self.timers.renewal = now + self.third_of_a_run_lease();
            self.renew();
        }
    }

    /// Returns the interval of checks for open runs and of renewals.
    fn third_of_a_run_lease(&self) -> Duration {
        (self.shared.node.terms.lease / 3).min(MAX_INTERVAL)
    }

    /// Registers jobs and reads their watermarks. Instances are not registered; only their watermarks are read. Also
    /// refreshes registrations: a job that no leader has registered for a while counts as removed.
    pub(super) fn register(&mut self, jobs: &[LockName], after: Duration) {
        let node = self.shared.node.clone();
        let registrations = jobs.iter().filter_map(|job| self.planner.registration(job));
        let (instances, jobs): (Vec<Registration>, Vec<Registration>) =
            registrations.partition(|registration| self.is_instance(&registration.job));
        if !instances.is_empty() {
            self.read_watermarks(instances, after);
        }
        if jobs.is_empty() {
            return;
        }
        let failed = Effect::Registered { jobs: jobs.clone(), answer: Err(panicked()) };
        let register = async move {
            sleep(after).await;
            let answer = node.ledger.register(jobs.clone()).await;
            Effect::Registered { jobs, answer }
        };
        self.spawn(register, failed);
    }

    /// Sends the schedules and terms of registered jobs, for display. A leader repeats this with its registrations.
    pub(super) fn describe_jobs(&mut self, jobs: &[Registration]) {
        let known = jobs.iter().filter_map(|registration| self.jobs.get(&registration.job));
        self.describe(known.map(|job| describe(job)).collect());
    }

    /// Sends the terms of the kinds, for display. A leader repeats this with its registrations.
    pub(super) fn describe_kinds(&mut self) {
        if !self.kinds.is_empty() {
            self.describe(self.kinds.iter().filter_map(|(name, kind)| describe_kind(name, kind)).collect());
        }
    }

    fn describe(&mut self, descriptions: Vec<JobDescription>) {
        let node = self.shared.node.clone();
        let describe = async move {
            if let Err(error) = node.ledger.describe(descriptions).await {
                node.store_failed(&error);
            }
            Effect::Described
        };
        self.spawn(describe, Effect::Described);
    }

    /// Makes the next heartbeat read all controls, regardless of the known revision.
    pub(super) fn read_all_controls(&mut self) {
        (self.known_revision, self.timers.heartbeat) = (NO_REVISION, Instant::now());
    }

    fn send_heartbeat(&mut self) {
        self.timers.heartbeat = self.timers.beats.within(Instant::now(), HEARTBEAT_INTERVAL);
        self.heartbeat_in_flight = true;
        let (node, known, record) = (self.shared.node.clone(), self.known_revision, self.record());
        let asked = self.planner.undecided(self.now());
        let failed = Effect::HeartbeatAnswered { asked: asked.clone(), answer: Err(panicked()) };
        let send = async move {
            let answer = node.ledger.heartbeat(record, NODE_LEASE, known, asked.clone()).await;
            if let Some(offset) = node.ledger.clock_offset() {
                node.observers.notify(|group| CronEvent::ClockCompared { group, offset });
            }
            Effect::HeartbeatAnswered { asked, answer }
        };
        self.spawn(send, failed);
    }

    /// Removes this node from the live nodes, so the others leave no further runs to it.
    pub(super) fn leave(&mut self) {
        if !self.is_member() {
            return;
        }
        self.leaving = true;
        let (node, known, record) = (self.shared.node.clone(), self.known_revision, self.record());
        let leave = async move {
            // If it fails, the record expires.
            let _ = node.ledger.heartbeat(record, Duration::ZERO, known, Vec::new()).await;
            Effect::Left
        };
        self.spawn(leave, Effect::Left);
    }

    fn record(&self) -> LiveNode {
        let (id, name) = (self.shared.node.id, self.shared.node.name.clone());
        let leading = self.leadership.is_some();
        let (jobs, room, kinds) = (self.fingerprint, self.room(), self.kinds.keys().cloned().collect());
        LiveNode { id, name, jobs, room, kinds, leading }
    }

    pub(super) fn read_open_runs(&mut self) {
        let node = self.shared.node.clone();
        let read = async move { Effect::OpenRunsRead(node.ledger.open_runs().await) };
        self.spawn(read, Effect::OpenRunsRead(Err(panicked())));
    }

    fn renew(&mut self) {
        let runs = self.shared.node.running.to_renew();
        if runs.is_empty() {
            return;
        }
        self.renewing = true;
        let (node, sent) = (self.shared.node.clone(), self.shared.node.ledger.moment());
        let failed = Effect::Renewed { sent, runs: runs.clone(), answer: Err(panicked()) };
        let renew = async move {
            let item = |HeldRun { key, held }: &HeldRun| RenewRun {
                job: key.job.clone(),
                run: key.run,
                claim: held.claim,
                lease: node.terms.lease,
            };
            let answer = node.ledger.renew(runs.iter().map(item).collect()).await;
            Effect::Renewed { sent, runs, answer }
        };
        self.spawn(renew, failed);
    }
}
