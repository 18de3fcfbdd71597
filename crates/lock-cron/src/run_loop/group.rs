//! The node as a member of its group: heartbeats, registrations, controls, instances, losses of data, overdue jobs.

use super::{Effect, HEARTBEAT_INTERVAL, Phase, REGISTRATION_INTERVAL, RunLoop, panicked};
use crate::{
    description::read_schedule,
    job::{Progress, is_on_a_node, kind_of},
    ledger_client::{Answer, NO_REVISION, RETRY_PAUSE},
    observer::CronEvent,
    plan::{Command, NODE_LEASE, Peers, PlannedBackfill},
};
use lock_core::{
    LockName,
    backend::{BackendError, Reply},
    clock::UtcTime,
};
use lock_ledger::{
    Backfill, CommandReply, FleetControls, GroupSummary, HeartbeatReply, Instance, Instances, JobCommand,
    JobDescription, JobStatus, JobSummary, LiveNode, OpenRun, RegisteredJob, Registration, RunId,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// The maximum interval of a repeated request, regardless of the leases.
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The time by which a watermark may be in the future before the server's clock is assumed to have
/// been ahead.
const MAX_WATERMARK_LEAD: Duration = Duration::from_secs(60);

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
    fn describe_jobs(&mut self, jobs: &[Registration]) {
        let known = jobs.iter().filter_map(|registration| self.jobs.get(&registration.job));
        self.describe(known.map(|job| job.describe()).collect());
    }

    /// Sends the terms of the kinds, for display. A leader repeats this with its registrations.
    pub(super) fn describe_kinds(&mut self) {
        if !self.kinds.is_empty() {
            self.describe(self.kinds.iter().filter_map(|(name, kind)| kind.describe(name)).collect());
        }
    }

    fn describe(&mut self, descriptions: Vec<JobDescription>) {
        let node = self.shared.node.clone();
        let describe = async move {
            if let Err(error) = node.ledger.describe(descriptions).await {
                node.store_failed(&error);
            }
            Effect::Done
        };
        self.spawn(describe, Effect::Done);
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

    pub(super) fn heartbeat_answered(
        &mut self,
        asked: &[Registration],
        answer: Answer<Reply<HeartbeatReply>>,
    ) {
        self.heartbeat_in_flight = false;
        let (read_at, outcome) = match answer {
            Ok(reply) => (reply.now, reply.outcome),
            Err(error) => return self.shared.node.store_failed(&error),
        };
        let mut commands = Vec::new();
        let (this, jobs) = (self.shared.node.id, self.fingerprint);
        let is_peer = |node: &&LiveNode| node.id != this && node.jobs == jobs && node.room > 0;
        let others: Vec<_> = outcome.nodes.iter().filter(is_peer).map(|node| node.id).collect();
        let crowded = !others.is_empty() && self.planner.waits_for_room();
        let lease = self.shared.terms.leadership_lease;
        let leadership = self.leadership.as_mut();
        if leadership.is_some_and(|of| of.is_crowded(crowded, lease)) && self.phase == Phase::Running {
            self.resign();
        }
        self.planner.peers_read(Peers { this, others, read_at });
        for (registration, watermark) in asked.iter().zip(outcome.watermarks) {
            self.planner.observed(registration, watermark, read_at, &mut commands);
        }
        self.controls_read(outcome.controls, &mut commands);
        let another_leads = outcome.nodes.iter().any(|node| node.leading && node.id != this);
        self.report_lost_group(another_leads);
        self.report_lost_jobs();
        self.compare_clocks();
        self.instances_seen(outcome.instances, &outcome.nodes, read_at);
        self.reinstate();
        self.execute(commands);
    }

    pub(super) fn registered(&mut self, jobs: Vec<Registration>, answer: Answer<Vec<RegisteredJob>>) {
        let leads = self.leadership.is_some();
        match answer {
            Ok(answers) if leads => {
                let now = self.now();
                for (registration, answer) in jobs.iter().zip(answers) {
                    self.job_registered(registration, answer, now);
                }
                self.describe_jobs(&jobs);
            }
            Ok(_) => {}
            Err(error) => self.registration_failed(&error, jobs),
        }
    }

    /// Repeats a registration for the jobs that are waiting for it. A failed refresh is left to the next interval.
    fn registration_failed(&mut self, error: &BackendError, jobs: Vec<Registration>) {
        self.shared.node.store_failed(error);
        let waits = |job: &LockName| self.planner.waits_for_watermark(job);
        let jobs: Vec<_> = jobs.into_iter().map(|r| r.job).filter(waits).collect();
        if self.leadership.is_some() && !jobs.is_empty() {
            self.register(&jobs, RETRY_PAUSE);
        }
    }

    fn job_registered(&mut self, registration: &Registration, answer: RegisteredJob, now: UtcTime) {
        let observers = &self.shared.node.observers;
        let (job, watermark) = (&registration.job, answer.watermark);
        let known = !self.registered.insert(job.clone());
        if known && answer.status == JobStatus::New {
            self.lost.jobs.push(job.clone());
        }
        let by = watermark.since(now);
        if by > MAX_WATERMARK_LEAD {
            observers.notify(|group| CronEvent::WatermarkAhead { group, job, by });
        }
        self.planner.registered(registration, watermark, now);
    }

    fn controls_read(&mut self, controls: FleetControls, commands: &mut Vec<Command>) {
        let FleetControls::Changed { revision, created, jobs, triggers, backfills, declined } = controls
        else {
            return;
        };
        self.known_revision = revision;
        // Runs of this node may have been cancelled.
        self.timers.renewal = Instant::now();
        self.lost.read(created, &mut self.controls);
        self.controls = self.lost.restored(jobs.into_iter().collect());
        (self.triggers, self.backfills) = (triggers, backfills);
        for job in self.jobs.values() {
            let controls = self.controls.get(&job.name);
            if self.planner.controls_changed(&job.name, job.effective(controls), commands) {
                job.check_replacement(controls);
            }
        }
        if self.leadership.is_some() {
            let foreign = self.triggers.iter().filter(|trigger| !self.jobs.contains_key(&trigger.job));
            let unowned = self.unowned.see_triggers(foreign.cloned().collect(), self.now());
            self.report_unowned(&unowned);
            // The revision also rises when another node releases a run.
            self.timers.open_runs = Instant::now();
        } else if self.declined.is_news(declined) {
            self.read_open_runs();
        }
        for trigger in &self.triggers {
            self.planner.triggered(&trigger.job, RunId::Triggered(trigger.id));
        }
        for job in self.job_names() {
            self.plan_backfills(&job);
        }
    }

    /// Passes the backfills of a job to the planner.
    fn plan_backfills(&mut self, job: &LockName) {
        let of_job = self.backfills.iter().filter(|backfill| backfill.job == *job);
        let readable = of_job.filter_map(|Backfill { id, schedule, dst, mark, last, .. }| {
            match read_schedule(job, schedule, dst) {
                Ok(schedule) => {
                    Some(PlannedBackfill { id: *id, schedule, mark: *mark, last: *last })
                }
                Err(error) => {
                    // Another version of the program stored it, or its zone is unknown on this machine.
                    tracing::error!(cron.job = %job, %error, "failed to parse the backfill's schedule; skipping the backfill");
                    None
                }
            }
        });
        let readable = readable.collect();
        self.planner.backfills_read(job, readable);
    }

    fn is_instance(&self, name: &LockName) -> bool {
        self.jobs.get(name).is_some_and(|job| job.definition > 0)
    }

    /// Reads the instances if a heartbeat shows another revision. A leader reads them even if it has no
    /// kinds, since it reports those that no node runs.
    fn instances_seen(&mut self, revision: u64, nodes: &[LiveNode], at: UtcTime) {
        if self.kinds.is_empty() && self.leadership.is_none() {
            return;
        }
        if revision == self.instances.revision {
            self.instances.current_at = at;
            if self.leadership.is_some() {
                let unowned = self.instances.foreign.iter().filter(|name| !is_on_a_node(name, nodes));
                let unowned = self.unowned.report(unowned.cloned().collect());
                self.report_unowned(&unowned);
            }
        } else if self.instances.may_be_read() {
            self.instances.reading = true;
            let (node, known) = (self.shared.node.clone(), self.instances.revision);
            let read = async move { Effect::InstancesRead(node.ledger.instances(known).await) };
            self.spawn(read, Effect::InstancesRead(Err(panicked())));
        }
    }

    /// Makes the next heartbeat read all instances.
    fn read_all_instances(&mut self) {
        (self.instances.revision, self.timers.heartbeat) = (NO_REVISION, Instant::now());
    }

    pub(super) fn instances_read(&mut self, answer: Answer<Instances>) {
        self.instances.reading = false;
        let (revision, instances, removed) = match answer {
            Ok(Instances::Changed { revision, instances, removed }) => (revision, instances, removed),
            Ok(Instances::All { revision, instances, .. }) => {
                let known: BTreeSet<_> = instances.iter().map(|instance| &instance.name).collect();
                let here = self.jobs.values().filter(|job| job.definition > 0).map(|job| &job.name);
                let here = here.chain(&self.instances.foreign);
                let removed = here.filter(|name| !known.contains(name)).cloned().collect();
                (revision, instances, removed)
            }
            Ok(_) => return,
            Err(error) => {
                self.instances.read_failed();
                return self.shared.node.store_failed(&error);
            }
        };
        self.instances.read(revision);
        for name in &removed {
            self.instances.foreign.remove(name);
            self.undefine(name);
        }
        let mut defined = BTreeSet::new();
        for instance in instances {
            if self.define(&instance) {
                defined.insert(instance.name);
            }
        }
        self.register_defined(&defined);
    }

    /// Applies an instance's definition. Returns `true` if it changed and this node can run it.
    fn define(&mut self, instance: &Instance) -> bool {
        let name = &instance.name;
        if self.jobs.get(name).is_some_and(|job| job.definition == instance.revision) {
            return false;
        }
        let kind = kind_of(name).and_then(|kind| self.kinds.get(kind));
        let job = kind.and_then(|kind| match kind.job(instance) {
            Ok(job) => Some(Arc::new(job)),
            Err(error) => {
                // Another version of the program stored it, or its zone is unknown on this machine.
                tracing::error!(cron.job = %name, %error, "failed to parse the instance's schedule; it will not run");
                None
            }
        });
        let Some(job) = job else {
            self.instances.foreign.insert(name.clone());
            self.undefine(name);
            return false;
        };
        self.instances.foreign.remove(name);
        let controls = job.effective(self.controls.get(name));
        self.planner.define(self.now(), name, (job.terms.clone(), job.definition), controls);
        self.plan_backfills(name);
        self.jobs.insert(name.clone(), job);
        true
    }

    fn undefine(&mut self, name: &LockName) {
        if self.is_instance(name) {
            self.jobs.remove(name);
            self.planner.remove(name);
        }
    }

    /// If this node leads, reads the watermarks of new definitions and plans their triggers.
    fn register_defined(&mut self, defined: &BTreeSet<LockName>) {
        if self.leadership.is_none() || defined.is_empty() {
            return;
        }
        self.register(&defined.iter().cloned().collect::<Vec<_>>(), Duration::ZERO);
        for trigger in self.triggers.iter().filter(|trigger| defined.contains(&trigger.job)) {
            self.planner.triggered(&trigger.job, RunId::Triggered(trigger.id));
        }
    }

    /// Reads the watermarks of instances. They are not registered: the request that added them set a watermark, and
    /// nothing may be written for an instance that has been forgotten.
    fn read_watermarks(&mut self, jobs: Vec<Registration>, after: Duration) {
        let node = self.shared.node.clone();
        let failed = Effect::WatermarksRead { jobs: jobs.clone(), answer: Err(panicked()) };
        let read = async move {
            sleep(after).await;
            let answer = node.ledger.watermarks(jobs.clone()).await;
            Effect::WatermarksRead { jobs, answer }
        };
        self.spawn(read, failed);
    }

    pub(super) fn watermarks_read(&mut self, jobs: Vec<Registration>, answer: Answer<Vec<Option<UtcTime>>>) {
        match answer {
            Ok(watermarks) if self.leadership.is_some() => {
                let now = self.now();
                for (registration, watermark) in jobs.iter().zip(watermarks) {
                    match watermark {
                        Some(watermark) => self.planner.registered(registration, watermark, now),
                        None => self.read_all_instances(),
                    }
                }
            }
            Ok(_) => {}
            Err(error) => self.registration_failed(&error, jobs),
        }
    }

    /// Returns `true` if an open run belongs to an instance of one of this node's kinds, and the instance was removed
    /// after the run was claimed.
    pub(super) fn is_of_a_removed_instance(&self, run: &OpenRun) -> bool {
        let is_ours = kind_of(&run.job).is_some_and(|kind| self.kinds.contains_key(kind));
        let is_known = self.jobs.contains_key(&run.job) || self.instances.foreign.contains(&run.job);
        is_ours && !is_known && run.started < self.instances.current_at
    }

    /// Reports a loss of the group's data if this node leads, perhaps only since the loss.
    fn report_lost_group(&mut self, another_leads: bool) {
        let leads = self.leadership.is_some();
        if self.lost.take_unreported(leads || another_leads) && leads {
            self.shared.node.observers.notify(|group| CronEvent::DataLost { group, job: None });
            // Otherwise each job would be reported as lost, too.
            self.registered.clear();
            self.lost.jobs.clear();
            self.timers.registration = Instant::now();
        }
    }

    /// Reports jobs that lost their data while the group kept its own.
    fn report_lost_jobs(&mut self) {
        for job in mem::take(&mut self.lost.jobs) {
            self.shared.node.observers.notify(|group| CronEvent::DataLost { group, job: Some(&job) });
        }
    }

    /// Sends the controls of this node's jobs from before the loss. Those of an instance wait until
    /// the store has the instance again. Otherwise, the instance would get the current time as its
    /// watermark, which would decide the late run of an instance that runs once.
    fn reinstate(&mut self) {
        let is_known =
            |job| self.jobs.contains_key(job) && !(self.instances.reading && self.is_instance(job));
        let lost = self.lost.controls.iter().filter(|(job, _)| is_known(job));
        let lost: Vec<_> = lost.map(|(job, controls)| (job.clone(), controls.clone())).collect();
        if lost.is_empty() || mem::replace(&mut self.lost.sending, true) {
            return;
        }
        let node = self.shared.node.clone();
        let send = async move {
            for (job, controls) in lost {
                match node.ledger.command(&job, JobCommand::Reinstate(controls)).await {
                    Ok(CommandReply::Accepted { .. }) => {
                        tracing::warn!(cron.job = %job, "controls restored after data loss");
                    }
                    Ok(_) => {}
                    Err(error) => node.store_failed(&error),
                }
            }
            Effect::Reinstated
        };
        self.spawn(send, Effect::Reinstated);
    }

    pub(super) fn reinstated(&mut self) {
        self.lost.sending = false;
    }

    /// Reports a jump since the last heartbeat.
    fn compare_clocks(&mut self) {
        let Some(offset) = self.shared.node.ledger.clock_offset() else { return };
        if let Some(by) = self.clock_offset.changed(offset) {
            self.shared.node.observers.notify(|group| CronEvent::ClockChanged { group, by });
        }
    }

    /// Reads the times of the latest successes, if any job has an `alert_after` or is reported as overdue.
    fn read_successes(&mut self) {
        let alerts = self.jobs.values().any(|job| job.terms.alert_after.is_some());
        if !alerts && self.overdue.is_empty() {
            return;
        }
        let node = self.shared.node.clone();
        let read = async move { Effect::SummaryRead(node.ledger.summary().await) };
        self.spawn(read, Effect::SummaryRead(Err(panicked())));
    }

    pub(super) fn successes_read(&mut self, answer: Answer<Reply<GroupSummary>>) {
        let observers = &self.shared.node.observers;
        let (now, summary) = match answer {
            Ok(reply) => (reply.now, reply.outcome),
            Err(error) => return self.shared.node.store_failed(&error),
        };
        if self.leadership.is_none() {
            return;
        }
        let summaries: BTreeMap<&LockName, &JobSummary> =
            summary.jobs.iter().map(|summary| (&summary.job, summary)).collect();
        let before = mem::take(&mut self.overdue);
        for (name, job) in &self.jobs {
            let (summary, controls) = (summaries.get(name).copied(), self.controls.get(name));
            let progress = Progress::new(job.terms.alert_after, job.since, summary, controls);
            let Some(silent) = progress.overdue(now) else { continue };
            if !before.contains(name) {
                observers.notify(|group| CronEvent::Overdue { group, job: name, silent });
            }
            self.overdue.insert(name.clone());
        }
        for job in before.difference(&self.overdue) {
            let success = summaries.get(job).and_then(|summary| summary.last_success);
            let terms = self.jobs.get(job).and_then(|job| job.terms.alert_after);
            let is_recent =
                |alert_after: Duration| success.is_some_and(|success| now.since(success) <= alert_after);
            let succeeded = terms.is_some_and(is_recent);
            observers.notify(|group| CronEvent::OverdueEnded { group, job, succeeded });
        }
    }

    /// Ends this node's reports; the next leader reports the overdue jobs again.
    pub(super) fn hand_over_overdue(&mut self) {
        for job in mem::take(&mut self.overdue) {
            let ended = |group| CronEvent::OverdueEnded { group, job: &job, succeeded: false };
            self.shared.node.observers.notify(ended);
        }
    }
}
