//! A run ledger in the rows of a database with transactions. The rules are those of [`GroupLedger`]; a store only reads
//! and writes parts of a group.

pub use crate::rules::parts::{Change, FINISHED, Parts, argument_name};
use crate::{
    control::{CommandReply, FleetControls, JobCommand},
    group::{GroupSummary, HeartbeatReply, HeartbeatRequest, JobDescription},
    ids::{ClaimId, GroupName, JobId, RunId},
    instance::{AddReply, AddRequest, InstanceDetail, Instances, InstancesFrom, Removal, RemoveReply},
    limits::MAX_HISTORY,
    request::{
        AfterAttempt, ClaimReply, ClaimRequest, EndReply, EndRequest, RegisteredJob, Registration, RenewRun,
        RunRenewal,
    },
    rules::{
        GroupLedger,
        parts::{
            ARGUMENT, CLAIM, HISTORY, INSTANCE, JOB, KIND, LOCKED, NODE, PAYLOAD, WantedInstances,
            parsed_argument,
        },
    },
    run::{Attempt, OpenRun, RunOutcome},
    run_ledger::RunLedger,
};
use async_trait::async_trait;
use lock_core::{
    __private::lock,
    LockName,
    backend::{Applied, BackendError, BackendErrorKind, Reply},
    clock::UtcTime,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, Mutex},
};

/// The parts of a group to read, besides its head.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    /// Those of these kinds that have one of the names.
    pub kinds: &'static [&'static str],
    /// The names.
    pub names: Vec<String>,
    /// All of these kinds; of arguments, only the names.
    pub all_of: &'static [&'static str],
    /// All jobs with open runs.
    pub open: bool,
    /// All jobs with controls.
    pub controlled: bool,
    /// First, the claims to lock, unless transactions of the application have them. Those that could be locked are read as
    /// parts `locked` as well.
    pub lock: Lock,
    /// The claims and the names of the arguments of this job.
    pub of_job: Option<String>,
    /// Jobs whose records have ended before this time in ms.
    pub expired: Option<u64>,
    /// The instances that follow this name, at most [`MAX_INSTANCES_READ`](crate::MAX_INSTANCES_READ).
    pub page: Option<String>,
}

/// Claims to lock.
#[derive(Debug, Clone, Default)]
pub enum Lock {
    /// None.
    #[default]
    Nothing,
    /// That of this name.
    One(String),
    /// Those of this job.
    OfJob(String),
}

/// The effect of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only reads.
    Read,
    /// It writes. A crash of the server may undo it.
    Quick,
    /// It writes, and is durable when it is reported.
    Durable,
    /// The same, and it must not wait behind other requests of the same client.
    Renewal,
}

/// The next step of a transaction.
#[derive(Debug)]
pub enum Next {
    /// Read more parts.
    Read(Needs),
    /// Write these parts, and commit.
    Commit(Vec<Change>),
}

/// Decides the next step, given the parts that were read: kind, name, data. The first step is given none.
pub type Step = Box<dyn FnMut(UtcTime, Vec<(String, String, String)>) -> Result<Next, BackendError> + Send>;

/// A database that stores parts of groups.
#[async_trait]
pub trait PartStore: Debug + Send + Sync + 'static {
    /// Estimates the current time of the server.
    fn now(&self) -> Option<UtcTime>;

    /// Executes a transaction on a group. Those that write exclude one another, and read the clock after the others have
    /// ended. Those that only read see one state.
    async fn transact(&self, group: GroupName, access: Access, step: Step) -> Result<(), BackendError>;
}

/// A run ledger in a database.
#[derive(Debug)]
pub struct StoredLedger<S> {
    store: S,
}

impl<S: PartStore> StoredLedger<S> {
    /// Creates the ledger of a store.
    pub fn new(store: S) -> Self {
        Self { store }
    }

    /// Applies a rule to the parts of a group that it needs.
    async fn with<R: Send + 'static>(
        &self,
        group: GroupName,
        access: Access,
        needs: Needs,
        rule: impl FnOnce(&mut GroupLedger, UtcTime) -> R + Send + 'static,
    ) -> Result<Reply<R>, BackendError> {
        self.transact(group, access, needs, |_| None, |ledger, now, _| Ok(rule(ledger, now))).await
    }

    /// The same, if the head of the group decides about further needs.
    async fn with_more<R: Send + 'static>(
        &self,
        group: GroupName,
        access: Access,
        needs: Needs,
        more: impl FnOnce(&GroupLedger) -> Option<Needs> + Send + 'static,
        rule: impl FnOnce(&mut GroupLedger, UtcTime) -> R + Send + 'static,
    ) -> Result<Reply<R>, BackendError> {
        self.transact(group, access, needs, more, |ledger, now, _| Ok(rule(ledger, now))).await
    }

    /// The same, if the rule may start runs or end them.
    async fn with_claims<R: Send + 'static>(
        &self,
        job: JobId,
        needs: Needs,
        history: u32,
        rule: impl FnOnce(&mut GroupLedger, UtcTime, &mut Claims) -> Result<R, BackendError> + Send + 'static,
    ) -> Result<Reply<R>, BackendError> {
        let group = job.group.clone();
        let rule = move |ledger: &mut GroupLedger, now, claims: &mut Claims| {
            claims.end_finished(ledger, now, &job, history);
            let reply = rule(ledger, now, claims)?;
            claims.forget_ended(ledger, &job.name);
            Ok(reply)
        };
        self.transact(group, Access::Durable, needs, |_| None, rule).await
    }

    async fn transact<R: Send + 'static>(
        &self,
        group: GroupName,
        access: Access,
        needs: Needs,
        more: impl FnOnce(&GroupLedger) -> Option<Needs> + Send + 'static,
        rule: impl FnOnce(&mut GroupLedger, UtcTime, &mut Claims) -> Result<R, BackendError> + Send + 'static,
    ) -> Result<Reply<R>, BackendError> {
        let reply = Arc::new(Mutex::new(None));
        let (result, mut first, mut more, mut rule) = (reply.clone(), Some(needs), Some(more), Some(rule));
        let (mut parts, mut has_expired) = (Parts::new(), false);
        let step = move |now: UtcTime, read: Vec<(String, String, String)>| {
            for (kind, name, data) in read {
                // The name alone does not replace the data.
                let before = parts.entry((kind, name)).or_default();
                if !data.is_empty() {
                    *before = data;
                }
            }
            if let Some(needs) = first.take() {
                let expired = (access != Access::Read).then_some(now.as_millis());
                return Ok(Next::Read(Needs { expired, ..needs }));
            }
            let mut ledger = GroupLedger::from_parts(&parts).map_err(misunderstood)?;
            let expired = ledger.expired(now);
            if !std::mem::replace(&mut has_expired, true) && !expired.is_empty() {
                let names = expired.iter().map(|name| name.as_str().to_owned()).collect();
                return Ok(Next::Read(Needs { kinds: &[JOB, HISTORY], names, ..Needs::default() }));
            }
            if let Some(needs) = more.take().and_then(|more| more(&ledger)) {
                return Ok(Next::Read(needs));
            }
            ledger.expire(now);
            let mut claims = Claims::of(&parts);
            if let Some(rule) = rule.take() {
                *lock(&result) = Some(Reply::new(now, rule(&mut ledger, now, &mut claims)?));
            }
            if access == Access::Read {
                return Ok(Next::Commit(Vec::new()));
            }
            let mut changes = ledger.changes(&parts).map_err(misunderstood)?;
            changes.extend(claims.changes(&parts));
            Ok(Next::Commit(changes))
        };
        self.store.transact(group, access, Box::new(step)).await?;
        let reply = lock(&reply).take();
        reply.ok_or_else(|| {
            let message = "the store committed a transaction of the ledger without its rule";
            BackendError::new(BackendErrorKind::Protocol, Applied::Unknown, message)
        })
    }
}

/// The claims of the open runs of a group, which transactions of the application compare.
struct Claims {
    by_name: BTreeMap<String, String>,
    locked: BTreeSet<String>,
}

impl Claims {
    fn of(parts: &Parts) -> Self {
        let of = |kind: &'static str| parts.iter().filter(move |((of, _), _)| of == kind);
        Self {
            by_name: of(CLAIM).map(|((_, name), data)| (name.clone(), data.clone())).collect(),
            locked: of(LOCKED).map(|((_, name), _)| name.clone()).collect(),
        }
    }

    /// Returns `true` if a transaction of the application has the claim of a run, and has not ended.
    fn is_in_transaction(&self, name: &str) -> bool {
        self.by_name.contains_key(name) && !self.locked.contains(name)
    }

    /// Ends the runs whose success was recorded by transactions of the application.
    fn end_finished(&mut self, ledger: &mut GroupLedger, now: UtcTime, job: &JobId, history: u32) {
        self.by_name.retain(|name, claim| {
            let Some((_, run, claim)) = finished(name, claim).filter(|(of, ..)| *of == job.name) else {
                return true;
            };
            let (outcome, then) = (RunOutcome::Succeeded, AfterAttempt::Finish);
            let (job, detail) = (job.clone(), String::new());
            ledger.end(now, &EndRequest { job, run, claim, outcome, detail, then, history });
            false
        });
    }

    /// Returns the jobs of the runs whose success was recorded by transactions of the application.
    fn jobs_of_finished(&self) -> BTreeSet<LockName> {
        self.by_name.iter().filter_map(|(name, claim)| finished(name, claim)).map(|(job, ..)| job).collect()
    }

    /// Forgets the claims of a job whose runs have ended.
    fn forget_ended(&mut self, ledger: &GroupLedger, job: &LockName) {
        self.by_name.retain(|name, _| {
            // One of a later version stays.
            parsed_argument(name).map_or(true, |(of, run)| of != *job || ledger.is_running(&of, run))
        });
    }

    fn changes(&self, before: &Parts) -> Vec<Change> {
        let change = |name: &String, data| Change { data, ..Change::of(CLAIM, name) };
        let key = |name: &String| (CLAIM.to_owned(), name.clone());
        let written = self.by_name.iter().filter(|(name, claim)| before.get(&key(name)) != Some(*claim));
        let written = written.map(|(name, claim)| change(name, Some(claim.clone())));
        let gone = before.keys().filter(|(kind, name)| kind == CLAIM && !self.by_name.contains_key(name));
        written.chain(gone.map(|(_, name)| change(name, None))).collect()
    }
}

/// Reads a claim whose success was recorded. Returns `None` for others, also for those of a later version.
fn finished(name: &str, claim: &str) -> Option<(LockName, RunId, ClaimId)> {
    let claim = claim.strip_suffix(FINISHED)?.parse().ok()?;
    let (job, run) = parsed_argument(name).ok()?;
    Some((job, run, claim))
}

fn in_transaction() -> BackendError {
    let message = "a transaction of the application that records the end of this run is open";
    BackendError::new(BackendErrorKind::Unavailable, Applied::No, message)
}

fn misunderstood(error: serde_json::Error) -> BackendError {
    let message = "a record of the ledger cannot be understood: it was written by another program";
    BackendError::new(BackendErrorKind::WrongType, Applied::No, message).with_source(error)
}

fn named(kinds: &'static [&'static str], names: impl IntoIterator<Item = LockName>) -> Needs {
    let names = names.into_iter().map(|name| name.as_str().to_owned()).collect();
    Needs { kinds, names, ..Needs::default() }
}

fn jobs_of(jobs: &[Registration]) -> Needs {
    named(&[JOB], jobs.iter().map(|registration| registration.job.clone()))
}

/// Returns the parts of a job whose run may end, which may remove its definition and withdraw its triggers.
fn whole_job(job: &LockName) -> Needs {
    let needs = named(&[JOB, HISTORY, INSTANCE, PAYLOAD, ARGUMENT], [job.clone()]);
    Needs { of_job: Some(job.as_str().to_owned()), ..needs }
}

#[async_trait]
impl<S: PartStore> RunLedger for StoredLedger<S> {
    fn server_now(&self, _: &GroupName) -> Option<UtcTime> {
        self.store.now()
    }

    async fn register(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<RegisteredJob>>, BackendError> {
        self.with(group, Access::Durable, jobs_of(&jobs), move |ledger, now| ledger.register(now, &jobs))
            .await
    }

    async fn watermarks(
        &self,
        group: GroupName,
        jobs: Vec<Registration>,
    ) -> Result<Reply<Vec<Option<UtcTime>>>, BackendError> {
        self.with(group, Access::Read, jobs_of(&jobs), move |ledger, _| ledger.watermarks(&jobs)).await
    }

    async fn claim(&self, r: ClaimRequest) -> Result<Reply<ClaimReply>, BackendError> {
        let mut needs = whole_job(&r.job.name);
        let name = argument_name(&r.job.name, r.run);
        needs.names.push(name.clone());
        (needs.open, needs.lock) = (r.pool.is_some(), Lock::One(name.clone()));
        self.with_claims(r.job.clone(), needs, r.history, move |ledger, now, claims| {
            if r.retry_of.is_some() && claims.is_in_transaction(&name) {
                return Ok(ClaimReply::Busy { running: 1 });
            }
            let reply = ledger.claim(now, &r);
            if matches!(reply, ClaimReply::Claimed { .. }) {
                claims.by_name.insert(name, r.claim.to_string());
            }
            Ok(reply)
        })
        .await
    }

    async fn renew(
        &self,
        group: GroupName,
        runs: Vec<RenewRun>,
    ) -> Result<Reply<Vec<RunRenewal>>, BackendError> {
        let needs = named(&[JOB], runs.iter().map(|item| item.job.clone()));
        self.with(group, Access::Renewal, needs, move |ledger, now| {
            runs.iter().map(|item| ledger.renew(now, item)).collect()
        })
        .await
    }

    async fn end(&self, r: EndRequest) -> Result<Reply<EndReply>, BackendError> {
        let name = argument_name(&r.job.name, r.run);
        let needs = Needs { lock: Lock::One(name.clone()), ..whole_job(&r.job.name) };
        self.with_claims(r.job.clone(), needs, r.history, move |ledger, now, claims| {
            if claims.is_in_transaction(&name) {
                return Err(in_transaction());
            }
            Ok(ledger.end(now, &r))
        })
        .await
    }

    async fn open_runs(&self, group: GroupName) -> Result<Reply<Vec<OpenRun>>, BackendError> {
        loop {
            let needs = Needs { open: true, all_of: &[CLAIM], ..Needs::default() };
            let read = |ledger: &mut GroupLedger, now, claims: &mut Claims| {
                Ok((ledger.open_runs(now), claims.jobs_of_finished()))
            };
            let reply = self.transact(group.clone(), Access::Read, needs, |_| None, read).await?;
            if reply.outcome.1.is_empty() {
                return Ok(reply.map(|(runs, _)| runs));
            }
            for name in reply.outcome.1 {
                // What a transaction of the application has recorded is no open run.
                let (job, needs) = (JobId { group: group.clone(), name: name.clone() }, whole_job(&name));
                self.with_claims(job, needs, MAX_HISTORY, |_, _, _| Ok(())).await?;
            }
        }
    }

    async fn history(&self, job: JobId, max: usize) -> Result<Reply<Vec<Attempt>>, BackendError> {
        let needs = named(&[JOB, HISTORY], [job.name.clone()]);
        self.with(job.group, Access::Read, needs, move |ledger, _| ledger.history(&job.name, max)).await
    }

    async fn command(&self, job: JobId, command: JobCommand) -> Result<Reply<CommandReply>, BackendError> {
        let mut needs = named(&[JOB, HISTORY], [job.name.clone()]);
        needs.all_of = &[ARGUMENT];
        self.with(job.group, Access::Durable, needs, move |ledger, now| {
            ledger.command(now, &job.name, &command)
        })
        .await
    }

    async fn controls(&self, group: GroupName, known: u64) -> Result<Reply<FleetControls>, BackendError> {
        let more = move |ledger: &GroupLedger| controls_after(ledger, known);
        self.with_more(group, Access::Read, Needs::default(), more, move |ledger, _| ledger.controls(known))
            .await
    }

    async fn describe(&self, group: GroupName, jobs: Vec<JobDescription>) -> Result<Reply<()>, BackendError> {
        let needs = named(&[JOB, HISTORY, KIND], jobs.iter().map(|description| description.job.clone()));
        self.with(group, Access::Quick, needs, move |ledger, now| ledger.describe(now, &jobs)).await
    }

    async fn summary(&self, group: GroupName) -> Result<Reply<GroupSummary>, BackendError> {
        let needs = Needs { all_of: &[JOB, KIND, NODE], ..Needs::default() };
        self.with(group, Access::Read, needs, |ledger, now| ledger.summary(now)).await
    }

    async fn heartbeat(&self, r: HeartbeatRequest) -> Result<Reply<HeartbeatReply>, BackendError> {
        let (known, group) = (r.known, r.group.clone());
        let needs = Needs { all_of: &[NODE], ..jobs_of(&r.watermarks) };
        let more = move |ledger: &GroupLedger| controls_after(ledger, known);
        self.with_more(group, Access::Quick, needs, more, move |ledger, now| ledger.heartbeat(now, &r)).await
    }

    async fn add(&self, r: AddRequest) -> Result<Reply<AddReply>, BackendError> {
        let needs = named(&[JOB, HISTORY, INSTANCE, PAYLOAD], [r.job.name.clone()]);
        let group = r.job.group.clone();
        self.with(group, Access::Durable, needs, move |ledger, now| ledger.add(now, &r)).await
    }

    async fn remove(&self, job: JobId, removal: Removal) -> Result<Reply<RemoveReply>, BackendError> {
        let (name, lock) = (job.name.clone(), Lock::OfJob(job.name.as_str().to_owned()));
        let needs = Needs { lock, ..whole_job(&job.name) };
        self.with_claims(job, needs, MAX_HISTORY, move |ledger, now, claims| {
            if claims.by_name.keys().any(|claim| claims.is_in_transaction(claim)) {
                return Err(in_transaction());
            }
            Ok(ledger.remove(now, &name, removal))
        })
        .await
    }

    async fn instance(&self, job: JobId) -> Result<Reply<Option<InstanceDetail>>, BackendError> {
        let needs = named(&[INSTANCE, PAYLOAD], [job.name.clone()]);
        self.with(job.group, Access::Read, needs, move |ledger, _| ledger.instance(&job.name)).await
    }

    async fn instances(
        &self,
        group: GroupName,
        from: InstancesFrom,
    ) -> Result<Reply<Instances>, BackendError> {
        let wanted = from.clone();
        let more = move |ledger: &GroupLedger| match ledger.wanted_instances(&wanted) {
            WantedInstances::Nothing => None,
            WantedInstances::Named(names) => Some(named(&[INSTANCE], names)),
            WantedInstances::Page(after) => {
                let after = after.map_or_else(String::new, |name| name.as_str().to_owned());
                Some(Needs { page: Some(after), ..Needs::default() })
            }
        };
        self.with_more(group, Access::Read, Needs::default(), more, move |ledger, _| ledger.instances(&from))
            .await
    }
}

/// Returns the jobs with controls unless the caller has them.
fn controls_after(ledger: &GroupLedger, known: u64) -> Option<Needs> {
    (ledger.revision() != known).then(|| Needs { controlled: true, ..Needs::default() })
}
