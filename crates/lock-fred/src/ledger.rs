//! The run ledger on Redis: each operation is one script, in one round trip, and each answer is read strictly.

use crate::{
    answer::{Raw, array, nonsense},
    backend::{RedisBackend, millis},
    keys::{GroupKeys, JobKeys, Keys},
    script,
};
use async_trait::async_trait;
use fred::types::Value;
use lock_core::{
    BackendError, FencingToken, LockName, ProcessId, ServerTime,
    backend::{
        Reply,
        ledger::{
            Attempt, CatchUp, ClaimRequest, Claimed, EndRequest, Ended, GroupName, HISTORY, JobId, JobOrders,
            KeepRun, KeptRun, Known, MOST_TRIGGERS, OpenRun, Order, Ordered, Orders, OverlapRule, Registered,
            RunId, RunLedger, RunState, Then, Trigger,
        },
    },
};
use std::{collections::BTreeMap, str::FromStr, time::Duration};

#[async_trait]
impl RunLedger for RedisBackend {
    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<LockName>,
    ) -> Result<Reply<Vec<Registered>>, BackendError> {
        // A right that is missing shows here and by name, not in the middle of a claim.
        self.probe_ledger(Keys::reserved(&format!("check:{}", ProcessId::random()))).await?;
        let keys = jobs.iter().map(|job| JobKeys::of(&group, job).job).collect();
        let raw = self.run(&script::LEDGER_REGISTER, keys, Vec::new()).await?;
        let of_one = |at| {
            let state = match raw.text(2 * at)?.as_str() {
                "new" => Known::New,
                "before" => Known::Before,
                _ => return Err(nonsense(raw.what)),
            };
            Ok(Registered { watermark: from_millis(raw.number(2 * at + 1)?), state })
        };
        let outcome = (0..jobs.len()).map(of_one).collect::<Result<_, _>>()?;
        Ok(Reply::new(raw.now, outcome))
    }

    async fn claim(&self, r: ClaimRequest) -> Result<Reply<Claimed>, BackendError> {
        let JobId { group, name } = &r.job;
        let JobKeys { job, history } = JobKeys::of(group, name);
        let GroupKeys { open, orders } = GroupKeys::of(group);
        let (overlap, most_open) = match r.overlap {
            OverlapRule::Skip => ("skip", 1),
            OverlapRule::Queue => ("queue", 1),
            OverlapRule::Replace => ("replace", 1),
            OverlapRule::Allow { max } => ("allow", max),
            _ => return Err(nonsense("claim a run")),
        };
        let args = vec![
            name.to_string(),
            r.run.to_string(),
            r.claim.to_string(),
            r.again.map_or_else(String::new, |again| again.claim.to_string()),
            r.again.map_or(0, |again| again.most).to_string(),
            r.epoch.to_string(),
            r.revision.to_string(),
            r.tolerance.as_millis().to_string(),
            overlap.to_owned(),
            most_open.to_string(),
            millis(r.lease),
            r.node,
            u8::from(r.catch_up == CatchUp::Yes).to_string(),
            r.missed.to_string(),
            HISTORY.to_string(),
        ];
        let raw = self.run(&script::LEDGER_CLAIM, vec![job, open, history, orders], args).await?;
        let outcome = match raw.word.as_str() {
            "claimed" => {
                Claimed::Claimed { token: FencingToken::new(raw.number(0)?), attempt: raw.count(1)? }
            }
            "fenced" => Claimed::Fenced { epoch: FencingToken::new(raw.number(0)?) },
            "skipped" => Claimed::Skipped { running: raw.count(0)? },
            "busy" => Claimed::Busy { running: raw.count(0)? },
            "early" => Claimed::Early { wait: Duration::from_millis(raw.number(0)?) },
            "duplicate" => Claimed::Duplicate,
            "superseded" => Claimed::Superseded,
            "paused" => Claimed::Paused,
            "outdated" => Claimed::Outdated,
            "gone" => Claimed::Gone,
            "unregistered" => Claimed::Unregistered,
            _ => return Err(nonsense(raw.what)),
        };
        Ok(Reply::new(raw.now, outcome))
    }

    async fn keep(&self, group: GroupName, runs: Vec<KeepRun>) -> Result<Reply<Vec<KeptRun>>, BackendError> {
        let item = |run: &KeepRun| {
            [run.job.to_string(), run.run.to_string(), run.claim.to_string(), millis(run.lease)]
        };
        let args = runs.iter().flat_map(item).collect();
        let raw = self.run(&script::LEDGER_KEEP, vec![GroupKeys::of(&group).open], args).await?;
        let of_one = |at| match raw.text(at)?.as_str() {
            "kept" => Ok(KeptRun::Kept),
            "replaced" => Ok(KeptRun::Replaced),
            "gone" => Ok(KeptRun::Gone),
            _ => Err(nonsense(raw.what)),
        };
        let outcome = (0..runs.len()).map(of_one).collect::<Result<_, _>>()?;
        Ok(Reply::new(raw.now, outcome))
    }

    async fn end(&self, r: EndRequest) -> Result<Reply<Ended>, BackendError> {
        let JobId { group, name } = &r.job;
        let JobKeys { job, history } = JobKeys::of(group, name);
        let then = match r.then {
            Then::Over => "over",
            Then::Again => "again",
            _ => return Err(nonsense("end a run")),
        };
        let args = vec![
            name.to_string(),
            r.run.to_string(),
            r.claim.to_string(),
            r.outcome.to_string(),
            r.detail,
            then.to_owned(),
            HISTORY.to_string(),
        ];
        let keys = vec![job, GroupKeys::of(group).open, history];
        let raw = self.run(&script::LEDGER_END, keys, args).await?;
        let outcome = match raw.word.as_str() {
            "recorded" => Ended::Recorded,
            "gone" => Ended::Gone,
            _ => return Err(nonsense(raw.what)),
        };
        Ok(Reply::new(raw.now, outcome))
    }

    async fn open(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        let raw = self.run(&script::LEDGER_OPEN, vec![GroupKeys::of(&group).open], Vec::new()).await?;
        let mut runs = Vec::new();
        for at in (0..raw.rest.len()).step_by(2) {
            let job = LockName::new(raw.text(at)?).map_err(|_| nonsense(raw.what))?;
            runs.push(Entry::read(&raw, at + 1)?.open(job, raw.now)?);
        }
        runs.sort_by(|a, b| (&a.job, a.run).cmp(&(&b.job, b.run)));
        Ok(Reply::new(raw.now, runs))
    }

    async fn history(&self, job: JobId, most: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        let key = JobKeys::of(&job.group, &job.name).history;
        let raw = self.run(&script::LEDGER_HISTORY, vec![key], vec![most.to_string()]).await?;
        let ended = |at| Entry::read(&raw, at)?.ended();
        let outcome = (0..raw.rest.len()).map(ended).collect::<Result<_, _>>()?;
        Ok(Reply::new(raw.now, outcome))
    }

    async fn order(&self, job: JobId, order: Order) -> Result<Reply<Ordered>, BackendError> {
        let (word, value) = match order {
            Order::Pause => ("pause", String::new()),
            Order::Resume => ("resume", String::new()),
            Order::Replace(schedule) => ("replace", schedule),
            Order::Restore => ("restore", String::new()),
            Order::Trigger(id) => ("trigger", RunId::Triggered(id).to_string()),
            _ => return Err(nonsense("give an order")),
        };
        let JobKeys { job: of_job, history } = JobKeys::of(&job.group, &job.name);
        let GroupKeys { open, orders } = GroupKeys::of(&job.group);
        let keys = vec![of_job, orders, open, history];
        let args = vec![job.name.to_string(), word.to_owned(), value, MOST_TRIGGERS.to_string()];
        let raw = self.run(&script::LEDGER_ORDER, keys, args).await?;
        let outcome = match raw.word.as_str() {
            "accepted" => Ordered::Accepted { revision: raw.number(0)? },
            "unregistered" => Ordered::Unregistered,
            "full" => Ordered::Full,
            _ => return Err(nonsense(raw.what)),
        };
        Ok(Reply::new(raw.now, outcome))
    }

    async fn orders(&self, group: GroupName, known: u64) -> Result<Reply<Orders>, BackendError> {
        let keys = vec![GroupKeys::of(&group).orders];
        let raw = self.run(&script::LEDGER_ORDERS, keys, vec![known.to_string()]).await?;
        let outcome = match raw.word.as_str() {
            "unchanged" => Orders::Unchanged,
            "changed" => changed(&raw)?,
            _ => return Err(nonsense(raw.what)),
        };
        Ok(Reply::new(raw.now, outcome))
    }
}

fn from_millis(millis: u64) -> ServerTime {
    ServerTime::from_micros(millis.saturating_mul(1000))
}

impl Raw {
    fn count(&self, at: usize) -> Result<u32, BackendError> {
        u32::try_from(self.number(at)?).map_err(|_| nonsense(self.what))
    }
}

/// The hash of the orders, field by field; the revision comes first.
fn changed(raw: &Raw) -> Result<Orders, BackendError> {
    let mut jobs: BTreeMap<LockName, JobOrders> = BTreeMap::new();
    let mut triggers = Vec::new();
    let name = |text: &str| LockName::new(text).map_err(|_| nonsense(raw.what));
    for at in (1..raw.rest.len()).step_by(2) {
        let (field, value) = (raw.text(at)?, raw.text(at + 1)?);
        let number = |text: &str| text.parse::<u64>().map_err(|_| nonsense(raw.what));
        match field.split_once(':') {
            None => {}
            Some(("revision", job)) => jobs.entry(name(job)?).or_default().revision = number(&value)?,
            Some(("paused", job)) => jobs.entry(name(job)?).or_default().paused = true,
            Some(("schedule", job)) => jobs.entry(name(job)?).or_default().schedule = Some(value),
            Some(("trigger", _)) => {
                let (RunId::Triggered(id), Some((given, job))) =
                    (field.parse().map_err(|_| nonsense(raw.what))?, value.split_once(' '))
                else {
                    return Err(nonsense(raw.what));
                };
                let given = ServerTime::from_micros(number(given)?);
                triggers.push(Trigger { given, id, job: name(job)? });
            }
            Some(_) => return Err(nonsense(raw.what)),
        }
    }
    triggers.sort_by_key(|trigger| (trigger.given, trigger.id));
    Ok(Orders::Changed { revision: raw.number(0)?, jobs: jobs.into_iter().collect(), triggers })
}

/// An attempt, as `ledger.lua` lists its parts.
struct Entry {
    what: &'static str,
    parts: Vec<String>,
}

impl Entry {
    fn read(raw: &Raw, at: usize) -> Result<Self, BackendError> {
        let entry = raw.rest.get(at).cloned().ok_or_else(|| nonsense(raw.what))?;
        let texts = array(raw.what, entry)?.into_iter().map(Value::into_string);
        let parts: Vec<_> = texts.collect::<Option<_>>().ok_or_else(|| nonsense(raw.what))?;
        if parts.len() == 11 { Ok(Self { what: raw.what, parts }) } else { Err(nonsense(raw.what)) }
    }

    fn part<T: FromStr>(&self, number: usize) -> Result<T, BackendError> {
        self.parts[number - 1].parse().map_err(|_| nonsense(self.what))
    }

    fn token(&self) -> Result<FencingToken, BackendError> {
        self.part(4).map(FencingToken::new)
    }

    fn micros(&self, number: usize) -> Result<ServerTime, BackendError> {
        self.part(number).map(ServerTime::from_micros)
    }

    fn open(&self, job: LockName, now: ServerTime) -> Result<OpenRun, BackendError> {
        let expires: u64 = self.part(9)?;
        let state = match (now.as_millis() > expires, self.parts[9].as_str()) {
            (true, _) => RunState::Orphaned,
            (false, "running") => RunState::Running,
            (false, "waiting") => RunState::Waiting,
            _ => return Err(nonsense(self.what)),
        };
        Ok(OpenRun {
            job,
            run: self.part(1)?,
            attempt: self.part(2)?,
            claim: self.part(3)?,
            token: self.token()?,
            node: self.parts[4].clone(),
            started: self.micros(8)?,
            remaining: Duration::from_millis(expires.saturating_sub(now.as_millis())),
            state,
        })
    }

    fn ended(&self) -> Result<Attempt, BackendError> {
        Ok(Attempt {
            run: self.part(1)?,
            attempt: self.part(2)?,
            claim: self.part(3)?,
            token: self.token()?,
            node: self.parts[4].clone(),
            catch_up: if self.parts[5] == "1" { CatchUp::Yes } else { CatchUp::No },
            missed: self.part(7)?,
            started: self.micros(8)?,
            ended: self.micros(9)?,
            outcome: self.part(10)?,
            detail: self.parts[10].clone(),
        })
    }
}
