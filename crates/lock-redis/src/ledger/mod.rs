//! The run ledger on Redis: each operation is one script, in one round trip.

mod record;

use crate::{
    backend::{RedisBackend, millis},
    client::Client,
    error::{RequestError, unexpected_reply},
    keys::{GroupKeys, JobKeys},
    script,
    script_reply::ScriptReply,
};
use async_trait::async_trait;
use lock_core::{BackendError, FencingToken, LockName, ServerTime, backend::Reply};
use lock_ledger::{
    ABSENT, Attempt, CatchUp, ClaimRequest, Claimed, EndRequest, Ended, GroupName, JobId, KeepRun, KeptRun,
    Known, MOST_OF_A_JOB, MOST_TRIGGERS, OpenRun, Order, Ordered, Orders, OverlapRule, Registered,
    Registration, RunId, RunLedger, SCHEDULES, Then,
};
use record::Record;
use std::time::Duration;

#[async_trait]
impl<C: Client> RunLedger for RedisBackend<C> {
    fn server_now(&self, _: &GroupName) -> Option<ServerTime> {
        self.server_time()
    }

    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        // A right that is missing shows here and by name, not in the middle of a claim.
        self.probe_ledger().await?;
        let mut keys = vec![GroupKeys::of(&group).group];
        keys.extend(job_keys(&group, &jobs));
        let mut args = vec![ABSENT.as_millis().to_string(), SCHEDULES.to_string()];
        args.extend(fingerprints(&jobs));
        let reply = self.run(&script::LEDGER_REGISTER, keys, args).await?;
        let of_one = |at| {
            let state = match reply.text(2 * at)? {
                "new" => Known::New,
                "before" => Known::Before,
                _ => return Err(unexpected_reply(reply.what)),
            };
            Ok(Registered { watermark: from_millis(reply.number(2 * at + 1)?), state })
        };
        let outcome = (0..jobs.len()).map(of_one).collect::<Result<_, RequestError>>()?;
        Ok(Reply::new(reply.now, outcome))
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<ServerTime>>>, BackendError> {
        let keys = job_keys(&group, &jobs).collect();
        let reply = self.run(&script::LEDGER_WATERMARKS, keys, fingerprints(&jobs).collect()).await?;
        let of_one = |at| match reply.text(at)? {
            "" => Ok(None),
            _ => Ok(Some(from_millis(reply.number(at)?))),
        };
        let outcome = (0..jobs.len()).map(of_one).collect::<Result<_, RequestError>>()?;
        Ok(Reply::new(reply.now, outcome))
    }

    async fn claim(&self, r: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        let JobId { group, name } = &r.job;
        let JobKeys { job, history } = JobKeys::of(group, name);
        let GroupKeys { open, group } = GroupKeys::of(group);
        let (overlap, most_open) = match r.overlap {
            OverlapRule::Skip => ("skip", 1),
            OverlapRule::Queue => ("queue", 1),
            OverlapRule::Replace => ("replace", 1),
            OverlapRule::Allow { max } => ("allow", max),
            _ => return Err(unexpected_reply("claim a run").into()),
        };
        let args = vec![
            name.to_string(),
            r.run.to_string(),
            r.claim.to_string(),
            r.again.map_or_else(String::new, |again| again.claim.to_string()),
            r.again.map_or(0, |again| again.failures).to_string(),
            r.again.map_or(0, |again| again.orphanings).to_string(),
            r.skip.as_ref().map_or_else(String::new, |skip| skip.first.to_string()),
            r.skip.as_ref().map_or(0, |skip| skip.count).to_string(),
            r.skip.map_or_else(String::new, |skip| skip.detail),
            fingerprint(r.schedule),
            r.revision.to_string(),
            overlap.to_owned(),
            most_open.to_string(),
            millis(r.lease),
            r.node,
            u8::from(r.catch_up == CatchUp::Yes).to_string(),
            r.history.to_string(),
        ];
        let reply = self.run(&script::LEDGER_CLAIM, vec![job, open, history, group], args).await?;
        let outcome = match reply.word() {
            "claimed" => {
                let (token, attempt, failures) = (reply.number(0)?, reply.count(1)?, reply.count(2)?);
                Claimed::Claimed { token: FencingToken::new(token), attempt, failures }
            }
            "skipped" => Claimed::Skipped,
            "expired" => Claimed::Expired,
            "busy" => Claimed::Busy { running: reply.count(0)? },
            "early" => Claimed::Early { wait: Duration::from_millis(reply.number(0)?) },
            "duplicate" => Claimed::Duplicate,
            "superseded" => Claimed::Superseded,
            "paused" => Claimed::Paused,
            "outdated" => Claimed::Outdated,
            "gone" => Claimed::Gone,
            "unregistered" => Claimed::Unregistered,
            _ => return Err(unexpected_reply(reply.what).into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError> {
        let item = |run: &KeepRun| {
            [run.job.to_string(), run.run.to_string(), run.claim.to_string(), millis(run.lease)]
        };
        let args = runs.iter().flat_map(item).collect();
        let reply = self.run(&script::LEDGER_KEEP, vec![GroupKeys::of(&group).open], args).await?;
        let of_one = |at| match reply.text(at)? {
            "kept" => Ok(KeptRun::Kept),
            "replaced" => Ok(KeptRun::Replaced),
            "gone" => Ok(KeptRun::Gone),
            _ => Err(unexpected_reply(reply.what)),
        };
        let outcome = (0..runs.len()).map(of_one).collect::<Result<_, RequestError>>()?;
        Ok(Reply::new(reply.now, outcome))
    }

    async fn end(&self, r: EndRequest) -> Result<Reply<Ended>, BackendError> {
        let JobId { group, name } = &r.job;
        let JobKeys { job, history } = JobKeys::of(group, name);
        let then = match r.then {
            Then::Over => "over",
            Then::Again => "again",
            Then::HandOver => "hand-over",
            Then::GiveBack => "give-back",
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
        ];
        let GroupKeys { open, group } = GroupKeys::of(group);
        let keys = vec![job, open, history, group];
        let reply = self.run(&script::LEDGER_END, keys, args).await?;
        let outcome = match reply.word() {
            "recorded" => Ended::Recorded,
            "gone" => Ended::Gone,
            _ => return Err(unexpected_reply(reply.what).into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        let reply = self.run(&script::LEDGER_OPEN, vec![GroupKeys::of(&group).open], Vec::new()).await?;
        let mut runs = Vec::new();
        for at in (0..reply.len()).step_by(2) {
            let (job, record) = (LockName::new(reply.text(at)?), Record::read(reply.text(at + 1)?));
            runs.extend(job.ok().and_then(|job| record?.open(job, reply.now)));
        }
        runs.sort_by(|a, b| (&a.job, a.run).cmp(&(&b.job, b.run)));
        Ok(Reply::new(reply.now, runs))
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        let key = JobKeys::of(&job.group, &job.name).history;
        let reply = self.run(&script::LEDGER_HISTORY, vec![key], vec![most.to_string()]).await?;
        let mut entries = Vec::new();
        for at in 0..reply.len() {
            entries.extend(Record::read(reply.text(at)?).and_then(|record| record.ended()));
        }
        Ok(Reply::new(reply.now, entries))
    }

    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        let trigger = |id| RunId::Triggered(id).to_string();
        let (word, value, life) = match order {
            Order::Pause => ("pause", String::new(), Duration::ZERO),
            Order::Resume => ("resume", String::new(), Duration::ZERO),
            Order::Replace(schedule) => ("replace", schedule, Duration::ZERO),
            Order::Restore => ("restore", String::new(), Duration::ZERO),
            Order::Reset => ("reset", String::new(), Duration::ZERO),
            Order::Trigger { id, life } => ("trigger", trigger(id), life),
            Order::CancelTrigger(id) => ("cancel", trigger(id), Duration::ZERO),
            _ => return Err(unexpected_reply("give an order").into()),
        };
        let JobKeys { job: of_job, history } = JobKeys::of(&job.group, &job.name);
        let GroupKeys { open, group } = GroupKeys::of(&job.group);
        let keys = vec![of_job, group, open, history];
        let args = vec![
            job.name.to_string(),
            word.to_owned(),
            value,
            life.as_millis().to_string(),
            MOST_TRIGGERS.to_string(),
            MOST_OF_A_JOB.to_string(),
        ];
        let reply = self.run(&script::LEDGER_ORDER, keys, args).await?;
        let outcome = match reply.word() {
            "accepted" => Ordered::Accepted { revision: reply.number(0)? },
            "unregistered" => Ordered::Unregistered,
            "full" => Ordered::Full,
            "gone" => Ordered::Gone,
            _ => return Err(unexpected_reply(reply.what).into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }

    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        let keys = vec![GroupKeys::of(&group).group];
        let reply = self.run(&script::LEDGER_ORDERS, keys, vec![known.to_string()]).await?;
        let outcome = match reply.word() {
            "unchanged" => Orders::Unchanged,
            "changed" => changed(&reply)?,
            _ => return Err(unexpected_reply(reply.what).into()),
        };
        Ok(Reply::new(reply.now, outcome))
    }
}

fn from_millis(millis: u64) -> ServerTime {
    ServerTime::from_micros(millis.saturating_mul(1000))
}

impl ScriptReply {
    fn count(&self, at: usize) -> Result<u32, RequestError> {
        u32::try_from(self.number(at)?).map_err(|_| unexpected_reply(self.what))
    }
}

/// The hash of the group, field by field; the revision comes first.
fn changed(reply: &ScriptReply) -> Result<Orders, RequestError> {
    let (mut jobs, mut triggers) = (Vec::new(), Vec::new());
    for at in (1..reply.len()).step_by(2) {
        let (field, value) = (reply.text(at)?, reply.text(at + 1)?);
        if let Some(job) = field.strip_prefix("job:") {
            let orders = Record::read(value).and_then(|record| record.orders());
            jobs.extend(LockName::new(job).ok().zip(orders));
        } else if let Ok(run) = field.parse() {
            triggers.extend(Record::read(value).and_then(|record| record.trigger(run)));
        }
    }
    jobs.sort_by(|(a, _), (b, _)| a.cmp(b));
    triggers.sort_by_key(|trigger| (trigger.given, trigger.id));
    Ok(Orders::Changed { revision: reply.number(0)?, jobs, triggers })
}

fn job_keys<'a>(group: &'a GroupName, jobs: &'a [Registration]) -> impl Iterator<Item = String> + 'a {
    jobs.iter().map(|registration| JobKeys::of(group, &registration.job).job)
}

fn fingerprints(jobs: &[Registration]) -> impl Iterator<Item = String> + '_ {
    jobs.iter().map(|registration| fingerprint(registration.schedule))
}

/// Of one length, so that texts are ordered as the numbers are.
fn fingerprint(schedule: u64) -> String {
    format!("{schedule:016x}")
}
