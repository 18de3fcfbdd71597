//! The run ledger on Redis. Each operation is one script in one round trip.

mod gathering;
mod record;

use crate::{
    backend::RedisBackend,
    client::Client,
    error::{RequestError, unexpected_reply},
    keys::{GroupKeys, JobKeys},
    pipeline::millis,
    script,
    script_reply::ScriptReply,
};
use async_trait::async_trait;
pub(crate) use gathering::Gathering;
use lock_core::{
    FencingToken, LockName,
    backend::{BackendError, Reply},
    clock::UtcTime,
};
use lock_ledger::{
    ABSENT_AFTER, AddReply, AddRequest, AfterAttempt, Attempt, BackfillRequest, CatchUp, ClaimReply,
    ClaimRequest, CommandReply, EndReply, EndRequest, FleetControls, GroupName, GroupSummary, HeartbeatReply,
    HeartbeatRequest, Instance, InstanceDetail, Instances, InstancesFrom, JobCommand, JobDescription, JobId,
    JobStatus, MAX_BACKFILLS, MAX_BACKFILLS_PER_JOB, MAX_DECLINES, MAX_INSTANCE_PAYLOADS, MAX_INSTANCES,
    MAX_INSTANCES_READ, MAX_SCHEDULES, MAX_TRIGGER_PAYLOADS, MAX_TRIGGERS, MAX_TRIGGERS_PER_JOB, OpenRun,
    OverlapRule, RegisteredJob, Registration, Removal, RemoveReply, RenewRun, RunId, RunLedger, RunRenewal,
};
use record::Record;
use std::{ops::Range, time::Duration};
use uuid::Uuid;

/// The maximum delay of a postponed run: numbers in Lua are exact up to 2⁵³.
const MAX_DELAY_MS: u128 = 1 << 52;

#[async_trait]
impl<C: Client> RunLedger for RedisBackend<C> {
    fn server_now(&self, group: &GroupName) -> Option<UtcTime> {
        self.server_time(&GroupKeys::of(group).open)
    }

    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError> {
        // Reports a missing permission here, by its name, and not in the middle of a claim.
        self.probe_ledger().await?;
        let mut keys = vec![GroupKeys::of(&group).group];
        keys.extend(job_keys(&group, &jobs));
        let mut args = vec![ABSENT_AFTER.as_millis().to_string(), MAX_SCHEDULES.to_string()];
        args.extend(fingerprints(&jobs));
        let reply = self.run_together(&script::LEDGER_REGISTER, keys, args).await?;
        let of_one = |at| {
            let status = match reply.text(2 * at)? {
                "new" => JobStatus::New,
                "existing" => JobStatus::Existing,
                _ => return Err(reply.unexpected()),
            };
            Ok(RegisteredJob { watermark: UtcTime::from_millis(reply.number(2 * at + 1)?), status })
        };
        let outcome = (0..jobs.len()).map(of_one).collect::<Result<_, RequestError>>()?;
        Ok(Reply::new(reply.now, outcome))
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError> {
        let keys = job_keys(&group, &jobs).collect();
        let reply = self.run(&script::LEDGER_WATERMARKS, keys, fingerprints(&jobs).collect()).await?;
        let outcome = read_watermarks(&reply, 0..jobs.len())?;
        Ok(Reply::new(reply.now, outcome))
    }

    async fn claim(&self, r: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError> {
        let JobId { group, name } = &r.job;
        let JobKeys { job, history } = JobKeys::of(group, name);
        let GroupKeys { open, group, instances, names, changes, summaries, payloads, .. } =
            GroupKeys::of(group);
        let (overlap, max_open) = match r.overlap {
            OverlapRule::Skip => ("skip", 1),
            OverlapRule::Queue { max } => ("queue", max),
            OverlapRule::Replace => ("replace", 1),
            OverlapRule::Allow { max } => ("allow", max),
            _ => return Err(unexpected_reply("claim a run").into()),
        };
        let args = vec![
            name.to_string(),
            r.run.to_string(),
            r.claim.to_string(),
            r.retry_of.map_or_else(String::new, |before| before.claim.to_string()),
            r.retry_of.map_or(0, |before| before.failures).to_string(),
            r.retry_of.map_or(0, |before| before.orphanings).to_string(),
            r.skip.as_ref().map_or_else(String::new, |skip| skip.first.to_string()),
            r.skip.as_ref().map_or(0, |skip| skip.count).to_string(),
            r.skip.map_or_else(String::new, |skip| skip.detail),
            fingerprint(r.schedule),
            r.revision.to_string(),
            overlap.to_owned(),
            max_open.to_string(),
            millis(r.lease),
            r.node,
            u8::from(r.catch_up == CatchUp::Yes).to_string(),
            r.history.to_string(),
            r.after.map_or_else(String::new, |after| after.as_millis().to_string()),
            r.definition.to_string(),
            r.pool.as_ref().map_or_else(String::new, |pool| pool.name.to_string()),
            r.pool.map_or(0, |pool| pool.max).to_string(),
            r.not_after.map_or_else(String::new, |not_after| not_after.as_millis().to_string()),
        ];
        let keys = vec![job, open, history, group, instances, changes, summaries, payloads, names];
        let reply = self.run(&script::LEDGER_CLAIM, keys, args).await?;
        let outcome = match reply.word() {
            "claimed" => {
                let (token, attempt, failures) = (reply.number(0)?, reply.count(1)?, reply.count(2)?);
                let payload = Some(reply.text(3)?.to_owned()).filter(|payload| !payload.is_empty());
                ClaimReply::Claimed { token: FencingToken::new(token), attempt, failures, payload }
            }
            "skipped" => ClaimReply::Skipped,
            "expired" => ClaimReply::Expired,
            "busy" => ClaimReply::Busy { running: reply.count(0)? },
            "pool_full" => ClaimReply::PoolFull { running: reply.count(0)? },
            "early" => ClaimReply::Early { wait: Duration::from_millis(reply.number(0)?) },
            "duplicate" => ClaimReply::Duplicate,
            "superseded" => ClaimReply::Superseded,
            "partly_decided" => ClaimReply::PartlyDecided,
            "late" => ClaimReply::Late,
            "behind" => ClaimReply::Behind,
            "paused" => ClaimReply::Paused,
            "outdated" => ClaimReply::Outdated,
            "gone" => ClaimReply::Gone,
            "unregistered" => ClaimReply::Unregistered,
            _ => return Err(reply.unexpected().into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn renew(
        &self,
        group: GroupName,
        runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError> {
        let item = |run: &RenewRun| {
            [run.job.to_string(), run.run.to_string(), run.claim.to_string(), millis(run.lease)]
        };
        let args = runs.iter().flat_map(item).collect();
        let reply = self.run(&script::LEDGER_RENEW, vec![GroupKeys::of(&group).open], args).await?;
        let of_one = |at| match reply.text(at)? {
            "renewed" => Ok(RunRenewal::Renewed),
            "replaced" => Ok(RunRenewal::Replaced),
            "cancelled" => Ok(RunRenewal::Cancelled),
            "gone" => Ok(RunRenewal::Gone),
            _ => Err(reply.unexpected()),
        };
        let outcome = (0..runs.len()).map(of_one).collect::<Result<_, RequestError>>()?;
        Ok(Reply::new(reply.now, outcome))
    }

    async fn end(&self, r: EndRequest) -> Result<Reply<EndReply>, BackendError> {
        let JobId { group, name } = &r.job;
        let JobKeys { job, history } = JobKeys::of(group, name);
        let (then, delay) = match r.then {
            AfterAttempt::Finish => ("finish", None),
            AfterAttempt::Retry => ("retry", None),
            AfterAttempt::Reassign => ("reassign", None),
            AfterAttempt::Requeue => ("requeue", None),
            AfterAttempt::Postpone { delay } => ("requeue", Some(delay)),
            AfterAttempt::Decline => ("decline", None),
            _ => return Err(unexpected_reply("end a run").into()),
        };
        let args = vec![
            name.to_string(),
            r.run.to_string(),
            r.claim.to_string(),
            r.outcome.to_string(),
            r.detail,
            then.to_owned(),
            r.history.to_string(),
            delay.map_or_else(String::new, |delay| delay.as_millis().min(MAX_DELAY_MS).to_string()),
            MAX_DECLINES.to_string(),
        ];
        let GroupKeys { open, group, instances, names, changes, summaries, payloads, .. } =
            GroupKeys::of(group);
        let keys = vec![job, open, history, group, instances, changes, summaries, payloads, names];
        let reply = self.run(&script::LEDGER_END, keys, args).await?;
        let outcome = match reply.word() {
            "recorded" => EndReply::Recorded,
            "gone" => EndReply::Gone,
            _ => return Err(reply.unexpected().into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        let reply =
            self.run_together(&script::LEDGER_OPEN, vec![GroupKeys::of(&group).open], Vec::new()).await?;
        let mut runs = Vec::new();
        for at in (0..reply.len()).step_by(2) {
            let (job, record) = (LockName::new(reply.text(at)?), Record::read(reply.text(at + 1)?));
            runs.extend(job.ok().and_then(|job| record?.open(job, reply.now)));
        }
        runs.sort_by(|a, b| (&a.job, a.run).cmp(&(&b.job, b.run)));
        Ok(Reply::new(reply.now, runs))
    }

    async fn history(&self, job: JobId, max: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        let key = JobKeys::of(&job.group, &job.name).history;
        let reply = self.run(&script::LEDGER_HISTORY, vec![key], vec![max.to_string()]).await?;
        let mut entries = Vec::new();
        for at in 0..reply.len() {
            entries.extend(Record::read(reply.text(at)?).and_then(|record| record.ended()));
        }
        Ok(Reply::new(reply.now, entries))
    }

    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError> {
        let trigger = |id| RunId::Triggered(id).to_string();
        let (mut actor, mut payload, mut backfill) = (String::new(), None, None);
        let backfill_field = |id: Uuid| format!("backfill:{}", id.hyphenated());
        let (word, value, life) = match command {
            JobCommand::Pause(note) => {
                actor = note.actor;
                ("pause", note.text, Duration::ZERO)
            }
            JobCommand::Resume => ("resume", String::new(), Duration::ZERO),
            JobCommand::Replace(schedule) => ("replace", schedule, Duration::ZERO),
            JobCommand::Restore => ("restore", String::new(), Duration::ZERO),
            JobCommand::Reset => ("reset", String::new(), Duration::ZERO),
            JobCommand::Reinstate(controls) => ("reinstate", record::of_controls(&controls), Duration::ZERO),
            JobCommand::Trigger { id, life, payload: with } => {
                payload = with;
                ("trigger", trigger(id), life)
            }
            JobCommand::CancelTrigger(id) => ("cancel_trigger", trigger(id), Duration::ZERO),
            JobCommand::CancelBackfill(id) => ("cancel_backfill", backfill_field(id), Duration::ZERO),
            JobCommand::Backfill(request) => {
                let field = backfill_field(request.id);
                backfill = Some(request);
                ("backfill", field, Duration::ZERO)
            }
            JobCommand::Cancel { run } => {
                ("cancel", run.map_or_else(String::new, |run| run.to_string()), Duration::ZERO)
            }
            _ => return Err(unexpected_reply("send a command").into()),
        };
        let JobKeys { job: of_job, history } = JobKeys::of(&job.group, &job.name);
        let GroupKeys { open, group, payloads, .. } = GroupKeys::of(&job.group);
        let keys = vec![of_job, group, open, history, payloads];
        let mut args = vec![
            job.name.to_string(),
            word.to_owned(),
            value,
            life.as_millis().to_string(),
            MAX_TRIGGERS.to_string(),
            MAX_TRIGGERS_PER_JOB.to_string(),
            actor,
            payload.unwrap_or_default(),
            MAX_TRIGGER_PAYLOADS.to_string(),
        ];
        if let Some(BackfillRequest { first, last, count, schedule, dst, .. }) = backfill {
            args.extend([first, last].map(|at| at.as_millis().to_string()));
            args.extend([count.to_string(), schedule, dst]);
            args.extend([MAX_BACKFILLS, MAX_BACKFILLS_PER_JOB].map(|max| max.to_string()));
        }
        let reply = self.run(&script::LEDGER_COMMAND, keys, args).await?;
        let outcome = match reply.word() {
            "accepted" => CommandReply::Accepted { revision: reply.number(0)? },
            "unregistered" => CommandReply::Unregistered,
            "full" => CommandReply::Full,
            "gone" => CommandReply::Gone,
            _ => return Err(reply.unexpected().into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError> {
        let keys = vec![GroupKeys::of(&group).group];
        let reply = self.run(&script::LEDGER_CONTROLS, keys, vec![known.to_string()]).await?;
        let outcome = match reply.word() {
            "unchanged" => FleetControls::Unchanged,
            "changed" => changed(&reply, 0)?,
            _ => return Err(reply.unexpected().into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError> {
        let mut keys = vec![GroupKeys::of(&group).summaries];
        keys.extend(jobs.iter().map(|of| JobKeys::of(&group, &of.job).job));
        let alert = |after: Option<Duration>| after.map_or_else(String::new, millis);
        let of_one =
            |of: JobDescription| [of.job.to_string(), of.schedule, of.dst, of.terms, alert(of.alert_after)];
        let args = jobs.into_iter().flat_map(of_one).collect();
        let reply = self.run_together(&script::LEDGER_DESCRIBE, keys, args).await?;
        if reply.word() != "described" {
            return Err(reply.unexpected().into());
        }
        Ok(Reply::new(reply.now, ()))
    }

    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError> {
        let GroupKeys { nodes, summaries, .. } = GroupKeys::of(&group);
        let reply = self.run(&script::LEDGER_SUMMARY, vec![nodes, summaries], Vec::new()).await?;
        if reply.word() != "summary" {
            return Err(reply.unexpected().into());
        }
        let first = 1 + 2 * reply.count(0)? as usize;
        let mut summary = GroupSummary { jobs: Vec::new(), nodes: Vec::new() };
        for at in (1..first).step_by(2) {
            let alive = Record::read(reply.text(at + 1)?).filter(|record| !record.is_over(reply.now));
            summary.nodes.extend(alive.and_then(|record| record.node(reply.text(at).ok()?)));
        }
        for at in (first..reply.len()).step_by(2) {
            let (job, record) = (LockName::new(reply.text(at)?), Record::read(reply.text(at + 1)?));
            summary.jobs.extend(job.ok().zip(record).map(|(job, record)| record.summary(job)));
        }
        summary.nodes.sort_by_key(|node| node.id);
        summary.jobs.sort_by(|a, b| a.job.cmp(&b.job));
        Ok(Reply::new(reply.now, summary))
    }

    async fn heartbeat(&self, r: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError> {
        let GroupKeys { nodes, group, .. } = GroupKeys::of(&r.group);
        let mut keys = vec![nodes, group];
        keys.extend(job_keys(&r.group, &r.watermarks));
        let mut args = vec![
            r.node.id.to_string(),
            r.node.name,
            fingerprint(r.node.jobs),
            r.node.room.to_string(),
            r.lease.as_millis().to_string(),
            r.known.to_string(),
            r.node.kinds.join("/"),
            u8::from(r.node.leading).to_string(),
        ];
        args.extend(fingerprints(&r.watermarks));
        let reply = self.run_together(&script::LEDGER_HEARTBEAT, keys, args).await?;
        if reply.word() != "alive" {
            return Err(reply.unexpected().into());
        }
        let marks = 1 + 2 * reply.count(0)? as usize;
        let instances = marks + r.watermarks.len();
        let controls = instances + 1;
        let mut nodes = Vec::new();
        for at in (1..marks).step_by(2) {
            let (id, record) = (reply.text(at)?, Record::read(reply.text(at + 1)?));
            nodes.extend(record.and_then(|record| record.node(id)));
        }
        nodes.sort_by_key(|node| node.id);
        let outcome = HeartbeatReply {
            nodes,
            watermarks: read_watermarks(&reply, marks..instances)?,
            instances: reply.number(instances)?,
            controls: match reply.number(controls)? {
                known if known == r.known => FleetControls::Unchanged,
                _ => changed(&reply, controls)?,
            },
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn add(&self, r: AddRequest) -> Result<Reply<AddReply>, BackendError> {
        // Reports a missing permission by its name. A process that adds instances may never register a job, which would
        // report it.
        self.probe_ledger().await?;
        let (job, once) = (JobKeys::of(&r.job.group, &r.job.name).job, r.definition.once);
        let GroupKeys { group, instances, names, changes, payloads, .. } = GroupKeys::of(&r.job.group);
        let args = vec![
            r.job.name.to_string(),
            r.definition.schedule,
            r.definition.dst,
            r.payload,
            once.map_or_else(String::new, |once| once.at.as_millis().to_string()),
            once.map_or_else(String::new, |once| once.kept.as_millis().to_string()),
            r.added_by,
            MAX_INSTANCES.to_string(),
            MAX_INSTANCE_PAYLOADS.to_string(),
        ];
        let keys = vec![job, group, instances, changes, names, payloads];
        let reply = self.run(&script::LEDGER_ADD, keys, args).await?;
        let outcome = match reply.word() {
            "added" => AddReply::Added,
            "changed" => AddReply::Changed,
            "unchanged" => AddReply::Unchanged,
            "already_run" => AddReply::AlreadyRun,
            "decided" => AddReply::Decided { up_to: UtcTime::from_millis(reply.number(0)?) },
            "full" => AddReply::Full,
            "too_large" => AddReply::PayloadsTooLarge,
            _ => return Err(reply.unexpected().into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn remove(&self, job: JobId, removal: Removal) -> Result<Reply<RemoveReply>, BackendError> {
        let JobKeys { job: of_job, history } = JobKeys::of(&job.group, &job.name);
        let GroupKeys { group, instances, names, changes, open, summaries, payloads, .. } =
            GroupKeys::of(&job.group);
        let extent = match removal {
            Removal::KeepRecord => "keep",
            Removal::Forget => "forget",
        };
        let keys = vec![of_job, group, instances, changes, open, history, summaries, payloads, names];
        let args = vec![job.name.to_string(), extent.to_owned()];
        let reply = self.run(&script::LEDGER_REMOVE, keys, args).await?;
        let outcome = match reply.word() {
            "removed" => RemoveReply::Removed,
            "unknown" => RemoveReply::Unknown,
            _ => return Err(reply.unexpected().into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn instance(&self, job: JobId) -> Result<Reply<Option<InstanceDetail>>, BackendError> {
        let GroupKeys { instances, payloads, .. } = GroupKeys::of(&job.group);
        let reply =
            self.run(&script::LEDGER_INSTANCE, vec![instances, payloads], vec![job.name.to_string()]).await?;
        let outcome = match reply.word() {
            "found" => {
                let payload = reply.text(1)?.to_owned();
                let instance =
                    Record::read(reply.text(0)?).and_then(|record| record.instance(job.name.clone()));
                instance.map(|instance| InstanceDetail { instance, payload })
            }
            "unknown" => None,
            _ => return Err(reply.unexpected().into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn instances(
        &self,
        group: GroupName,
        from: InstancesFrom,
    ) -> Result<Reply<Instances>, BackendError> {
        let GroupKeys { group, instances, names, changes, .. } = GroupKeys::of(&group);
        let keys = vec![group, instances, changes, names];
        let (known, after) = match from {
            InstancesFrom::Revision(known) => (known.to_string(), String::new()),
            InstancesFrom::Name(name) => (String::new(), name.to_string()),
        };
        let args = vec![known, after, MAX_INSTANCES_READ.to_string()];
        let reply = self.run(&script::LEDGER_INSTANCES, keys, args).await?;
        let outcome = match reply.word() {
            "unchanged" => Instances::Unchanged,
            "changed" => {
                let (instances, removed) = read_instances(&reply, 1)?;
                Instances::Changed { revision: reply.number(0)?, instances, removed }
            }
            "all" => {
                let next = match reply.text(1)? {
                    "" => None,
                    name => Some(LockName::new(name).map_err(|_| reply.unexpected())?),
                };
                Instances::All { revision: reply.number(0)?, instances: read_instances(&reply, 2)?.0, next }
            }
            _ => return Err(reply.unexpected().into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }
}

/// Decodes the watermarks of jobs. An empty text means that the job is unknown.
fn read_watermarks(reply: &ScriptReply, parts: Range<usize>) -> Result<Vec<Option<UtcTime>>, RequestError> {
    let of_one = |at| match reply.text(at)? {
        "" => Ok(None),
        _ => Ok(Some(UtcTime::from_millis(reply.number(at)?))),
    };
    parts.map(of_one).collect()
}

/// Decodes the instances of a reply, and the names of those whose definition is missing or cannot be decoded.
fn read_instances(reply: &ScriptReply, first: usize) -> Result<(Vec<Instance>, Vec<LockName>), RequestError> {
    let (mut instances, mut removed) = (Vec::new(), Vec::new());
    for at in (first..reply.len()).step_by(2) {
        let Ok(name) = LockName::new(reply.text(at)?) else { continue };
        match Record::read(reply.text(at + 1)?).and_then(|record| record.instance(name.clone())) {
            Some(instance) => instances.push(instance),
            None => removed.push(name),
        }
    }
    instances.sort_by(|a, b| a.name.cmp(&b.name));
    removed.sort();
    Ok((instances, removed))
}

/// Decodes the controls' revision in this part, and the fields of the group's hash, which follow it.
fn changed(reply: &ScriptReply, first: usize) -> Result<FleetControls, RequestError> {
    let (mut created, mut jobs, mut triggers, mut backfills) = (None, Vec::new(), Vec::new(), Vec::new());
    let mut declined = 0;
    for at in (first + 1..reply.len()).step_by(2) {
        let (field, value) = (reply.text(at)?, reply.text(at + 1)?);
        if let Some(job) = field.strip_prefix("job:") {
            let controls = Record::read(value).and_then(|record| record.controls());
            jobs.extend(LockName::new(job).ok().zip(controls));
        } else if field == "created" {
            created = value.parse().ok().map(UtcTime::from_millis);
        } else if field == "declined" {
            declined = value.parse().unwrap_or_default();
        } else if let Some(id) = field.strip_prefix("backfill:") {
            let id = Uuid::try_parse(id).ok();
            backfills.extend(id.and_then(|id| Record::read(value)?.backfill(id)));
        } else if let Ok(run) = field.parse() {
            triggers.extend(Record::read(value).and_then(|record| record.trigger(run)));
        }
    }
    jobs.sort_by(|(a, _), (b, _)| a.cmp(b));
    triggers.sort_by_key(|trigger| (trigger.given, trigger.id));
    backfills.sort_by_key(|backfill| (backfill.given, backfill.id));
    Ok(FleetControls::Changed {
        revision: reply.number(first)?,
        created,
        jobs,
        triggers,
        backfills,
        declined,
    })
}

fn job_keys<'a>(group: &'a GroupName, jobs: &'a [Registration]) -> impl Iterator<Item = String> + 'a {
    jobs.iter().map(|registration| JobKeys::of(group, &registration.job).job)
}

fn fingerprints(jobs: &[Registration]) -> impl Iterator<Item = String> + '_ {
    jobs.iter().map(|registration| fingerprint(registration.schedule))
}

/// Formats a fingerprint with a fixed length, so the texts sort like the numbers.
fn fingerprint(schedule: u64) -> String {
    format!("{schedule:016x}")
}
