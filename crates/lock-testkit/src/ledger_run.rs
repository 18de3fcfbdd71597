//! Random operations on a run ledger, whose answers are compared with its rules.

use crate::{Seed, Stream};
use lock_core::{LockName, backend::ProcessId, clock::UtcTime};
use lock_ledger::{
    AddReply, AddRequest, AfterAttempt, Backfill, BackfillRequest, CatchUp, ClaimId, ClaimReply,
    ClaimRequest, CommandReply, Definition, EndReply, EndRequest, FleetControls, GroupLedger, GroupName,
    HeartbeatRequest, Instance, Instances, InstancesFrom, JobCommand, JobControls, JobDescription, JobId,
    LiveNode, Once, OverlapRule, PauseNote, PoolLimit, Registration, Removal, RemoveReply, RenewRun, RetryOf,
    RunId, RunLedger, RunOutcome, RunRenewal, Skip,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use uuid::Uuid;

/// The number of kinds of answers.
const KINDS: usize = 42;
/// The length of a history.
const HISTORY: u32 = 60;

/// A run of random operations on a group of a run ledger, each of whose answers must be that of the rules of lock-ledger.
///
/// A difference panics.
#[derive(Debug)]
pub struct LedgerRun {
    ledger: Arc<dyn RunLedger>,
    model: GroupLedger,
    random: Stream,
    group: GroupName,
    jobs: Vec<LockName>,
    instance: LockName,
    /// The revision of the last read of the instances.
    known: u64,
    /// Recent claims, for repeats, retries and ends.
    recent: Vec<ClaimRequest>,
    triggers: Vec<RunId>,
    backfills: Vec<Uuid>,
    now: UtcTime,
    seen: BTreeMap<&'static str, u32>,
}

impl LedgerRun {
    /// Begins a run, in a group of its own.
    ///
    /// # Panics
    /// Panics if the ledger does not answer.
    pub async fn new(ledger: Arc<dyn RunLedger>, seed: Seed) -> Self {
        let mut run = Self {
            ledger,
            model: GroupLedger::default(),
            random: seed.stream(),
            group: GroupName::new(format!("same:{}", ProcessId::random())).expect("valid name"),
            jobs: ["a", "b", "k/i", "never-registered"].into_iter().map(name).collect(),
            instance: name("k/i"),
            known: 0,
            recent: Vec::new(),
            triggers: Vec::new(),
            backfills: Vec::new(),
            now: UtcTime::default(),
            seen: BTreeMap::new(),
        };
        let known: Vec<_> =
            run.jobs[..2].iter().map(|job| Registration { job: job.clone(), schedule: 0 }).collect();
        let reply = run.ledger.register(run.group.clone(), known.clone()).await.expect("the ledger answers");
        assert_eq!(reply.outcome, run.model.register(reply.now, &known));
        run.now = reply.now;
        run
    }

    /// Returns `true` if each kind of answer came at least this often. Rare ones also depend on the speed of the machine.
    #[must_use]
    pub fn has_seen_all(&self, often: u32) -> bool {
        self.seen.len() == KINDS && self.seen.values().all(|&times| times >= often)
    }

    /// Returns the number of answers of each kind.
    #[must_use]
    pub fn seen(&self) -> &BTreeMap<&'static str, u32> {
        &self.seen
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let at = self.random.below(from.len() as u64);
        from[usize::try_from(at).expect("valid")].clone()
    }

    fn job(&mut self) -> JobId {
        let known = if self.random.chance(0.05) { self.jobs.len() } else { self.jobs.len() - 1 };
        let jobs = self.jobs[..known].to_vec();
        JobId { group: self.group.clone(), name: self.pick(&jobs) }
    }

    /// Usually long, occasionally shorter than the sequence.
    fn lease(&mut self) -> Duration {
        Duration::from_millis(if self.random.chance(0.8) { 1 + self.random.below(20) } else { 60_000 })
    }

    fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Usually the job's revision, occasionally another one.
    fn revision(&mut self, job: &LockName) -> u64 {
        let FleetControls::Changed { jobs, .. } = self.model.controls(u64::MAX) else { return 0 };
        let known = jobs.iter().find(|(name, _)| name == job).map_or(0, |(_, orders)| orders.revision);
        if self.random.chance(0.1) { known + 1 } else { known }
    }

    /// Returns the instances of the model.
    fn defined(&self) -> Vec<Instance> {
        match self.model.instances(&InstancesFrom::Revision(u64::MAX)) {
            Instances::All { instances, .. } => instances,
            _ => panic!("no group has that revision"),
        }
    }

    fn definition(&mut self, job: &LockName) -> u64 {
        let known = self.defined().into_iter().find(|instance| instance.name == *job);
        known.map_or(0, |instance| instance.revision) + u64::from(self.random.chance(0.1))
    }

    /// Adds, removes and reads instances.
    async fn instance(&mut self) {
        let job = JobId { group: self.group.clone(), name: self.instance.clone() };
        if self.random.chance(0.3) {
            let removal = self.pick(&[Removal::KeepRecord, Removal::Forget]);
            let reply = self.ledger.remove(job.clone(), removal).await.expect("the ledger answers");
            assert_eq!(reply.outcome, self.model.remove(reply.now, &job.name, removal));
            self.count(if reply.outcome == RemoveReply::Removed { "removed" } else { "nothing to remove" });
        } else {
            let at = UtcTime::from_millis(self.now.as_millis() - 20 + self.random.below(25));
            let once = Once { at, kept: Duration::from_secs(3600) };
            let definition = Definition {
                schedule: self.pick(&["@hourly", "@daily"]).to_owned(),
                dst: String::new(),
                once: self.random.chance(0.3).then_some(once),
            };
            let request = AddRequest {
                job: job.clone(),
                definition,
                payload: self.pick(&["", "1", "\"ü\""]).to_owned(),
                added_by: "a".to_owned(),
            };
            let reply = self.ledger.add(request.clone()).await.expect("the ledger answers");
            assert_eq!(reply.outcome, self.model.add(reply.now, &request));
            self.count(match reply.outcome {
                AddReply::Added => "added",
                AddReply::Changed => "redefined",
                AddReply::Unchanged => "defined already",
                AddReply::AlreadyRun => "already run",
                AddReply::Decided { .. } => "decided before it was added",
                other => panic!("few instances: {other:?}"),
            });
        }
        let mut revisions: Vec<_> = self.defined().iter().map(|instance| instance.revision).collect();
        revisions.extend([0, self.known, u64::MAX]);
        let from = InstancesFrom::Revision(self.pick(&revisions));
        let read = self
            .ledger
            .instances(self.group.clone(), from.clone())
            .await
            .expect("the ledger answers")
            .outcome;
        assert_eq!(read, self.model.instances(&from));
        let one = self.ledger.instance(job.clone()).await.expect("the ledger answers").outcome;
        assert_eq!(one, self.model.instance(&job.name));
        if let Instances::Changed { revision, .. } | Instances::All { revision, .. } = read {
            self.known = revision;
        }
    }

    fn pool(&mut self) -> Option<PoolLimit> {
        let max = u32::try_from(self.random.below(4)).expect("valid");
        let name = name(self.pick(&["heavy", "light \"ü\""]));
        self.random.chance(0.5).then_some(PoolLimit { name, max })
    }

    fn open_backfills(&self) -> Vec<Backfill> {
        match self.model.controls(u64::MAX) {
            FleetControls::Changed { backfills, .. } => backfills,
            _ => panic!("no group has that revision"),
        }
    }

    fn fresh_claim(&mut self) -> ClaimRequest {
        let mut job = self.job();
        let around = self.now.as_millis() - 20 + self.random.below(25);
        let open_backfill = self.open_backfills().into_iter().next().filter(|_| self.random.chance(0.5));
        let run = match (self.random.below(5), open_backfill) {
            (1, Some(open)) => {
                job.name = open.job;
                let at = open.mark.as_millis() + 1 + self.random.below(5);
                RunId::Backfill { id: open.id, at: UtcTime::from_millis(at) }
            }
            (1, None) if !self.backfills.is_empty() => {
                let backfills = self.backfills.clone();
                RunId::Backfill { id: self.pick(&backfills), at: UtcTime::from_millis(around - 10) }
            }
            (0, _) if !self.triggers.is_empty() => {
                let triggers = self.triggers.clone();
                self.pick(&triggers)
            }
            _ => RunId::at_millis(around),
        };
        let overlap = match self.random.below(8) {
            0 => OverlapRule::Skip,
            1 => OverlapRule::Queue { max: u32::try_from(1 + self.random.below(2)).expect("valid") },
            2 => OverlapRule::Replace,
            n => OverlapRule::Allow { max: u32::try_from(n).expect("valid") },
        };
        let count = u32::try_from(1 + self.random.below(9)).expect("valid");
        let detail = self.pick(&["missed", "a later run took its place"]).to_owned();
        let is_row = run.scheduled().is_some() && self.random.chance(0.2);
        let first = RunId::at_millis(around - self.random.below(10));
        ClaimRequest {
            revision: self.revision(&job.name),
            definition: self.definition(&job.name),
            job,
            run,
            claim: ClaimId::random(),
            retry_of: None,
            skip: is_row.then_some(Skip { first, count, detail }),
            after: self.random.chance(0.2).then(|| UtcTime::from_millis(around - 1)),
            not_after: self.random.chance(0.2).then(|| UtcTime::from_millis(around + self.random.below(10))),
            schedule: self.random.below(12),
            overlap,
            pool: self.pool(),
            lease: self.lease(),
            node: self.pick(&["a", "b ü"]).to_owned(),
            catch_up: if self.random.chance(0.5) { CatchUp::Yes } else { CatchUp::No },
            history: HISTORY,
        }
    }

    async fn claim(&mut self) {
        let recent = self.recent.clone();
        let request = match self.random.below(10) {
            0..=1 if !recent.is_empty() => self.pick(&recent),
            2..=4 if !recent.is_empty() => {
                let before = self.pick(&recent);
                let [failures, orphanings] =
                    [(); 2].map(|()| u32::try_from(self.random.below(4)).expect("valid"));
                let retry_of = Some(RetryOf { claim: before.claim, failures, orphanings });
                let (claim, lease) = (ClaimId::random(), self.lease());
                ClaimRequest { retry_of, skip: None, claim, lease, pool: self.pool(), ..before }
            }
            _ => self.fresh_claim(),
        };
        let reply = self.ledger.claim(request.clone()).await.expect("the ledger answers");
        self.now = reply.now;
        let expected = self.model.claim(reply.now, &request);
        assert_eq!(reply.outcome, expected, "{request:?}");
        self.count(match expected {
            ClaimReply::Claimed { attempt: 1, .. } if request.run.backfill().is_some() => "backfilled",
            ClaimReply::Claimed { payload: Some(_), .. } => "claimed with a payload",
            ClaimReply::Claimed { attempt: 1, .. } => "claimed",
            ClaimReply::Claimed { .. } => "claimed again",
            ClaimReply::Duplicate => "duplicate",
            ClaimReply::Superseded => "superseded",
            ClaimReply::PartlyDecided => "partly decided",
            ClaimReply::Early { .. } => "early",
            ClaimReply::Late => "late",
            ClaimReply::Behind => "behind",
            ClaimReply::Skipped if request.skip.is_some() => "row skipped",
            ClaimReply::Skipped => "skipped",
            ClaimReply::Expired => "expired",
            ClaimReply::Busy { .. } => "busy",
            ClaimReply::PoolFull { .. } => "pool full",
            ClaimReply::Paused => "paused",
            ClaimReply::Outdated => "outdated",
            ClaimReply::Gone => "gone",
            _ => "unregistered",
        });
        // Granted claims allow the most follow-up requests.
        if matches!(reply.outcome, ClaimReply::Claimed { .. }) || self.random.chance(0.1) {
            self.recent.push(request);
        }
        if self.recent.len() > 8 {
            self.recent.remove(0);
        }
    }

    async fn renew(&mut self) {
        let mut runs = Vec::new();
        for request in self.recent.clone().into_iter().rev().take(3) {
            let lease = self.lease();
            runs.push(RenewRun { job: request.job.name, run: request.run, claim: request.claim, lease });
        }
        let reply = self.ledger.renew(self.group.clone(), runs.clone()).await.expect("the ledger answers");
        let expected: Vec<_> = runs.iter().map(|item| self.model.renew(reply.now, item)).collect();
        assert_eq!(reply.outcome, expected);
        for renewal in expected {
            self.count(match renewal {
                RunRenewal::Renewed => "renewed",
                RunRenewal::Replaced => "replaced",
                RunRenewal::Cancelled => "cancelled",
                _ => "not renewed",
            });
        }
    }

    async fn end(&mut self) {
        let recent = self.recent.clone();
        if recent.is_empty() {
            return;
        }
        let request = self.pick(&recent);
        let outcome = self.pick(&[RunOutcome::Succeeded, RunOutcome::Failed, RunOutcome::TimedOut]);
        let end = EndRequest {
            job: request.job,
            run: request.run,
            claim: request.claim,
            outcome,
            detail: "why".to_owned(),
            then: self.pick(&[
                AfterAttempt::Finish,
                AfterAttempt::Finish,
                AfterAttempt::Retry,
                AfterAttempt::Reassign,
                AfterAttempt::Requeue,
                AfterAttempt::Postpone { delay: Duration::from_millis(5) },
                AfterAttempt::Decline,
            ]),
            history: HISTORY,
        };
        let reply = self.ledger.end(end.clone()).await.expect("the ledger answers");
        let expected = self.model.end(reply.now, &end);
        assert_eq!(reply.outcome, expected);
        self.count(match (expected, end.then) {
            (EndReply::Recorded, AfterAttempt::Reassign) => "reassigned",
            (EndReply::Recorded, AfterAttempt::Requeue) => "requeued",
            (EndReply::Recorded, AfterAttempt::Decline) => "declined",
            (EndReply::Recorded, _) => "ended",
            _ => "not there to end",
        });
    }

    async fn command(&mut self) {
        let (mut job, mut id) = (self.job(), *ProcessId::random().as_uuid());
        if let (true, Some(RunId::Triggered(before))) = (self.random.chance(0.3), self.triggers.last()) {
            id = *before;
        }
        if self.random.chance(0.2) {
            job.name = self.jobs[2].clone();
        }
        let text = self.pick(&["@daily", "@hourly"]).to_owned();
        let life = Duration::from_millis(if self.random.chance(0.5) { 1 } else { 60_000 });
        let payload = self.pick(&[None, Some("7"), Some("\"ü\"")]).map(str::to_owned);
        let open = self.model.open_runs(self.now);
        let run = open.first().filter(|_| self.random.chance(0.5)).map(|open| open.run);
        let backfill = match (self.random.chance(0.5), self.backfills.last()) {
            (true, Some(before)) => *before,
            _ => *ProcessId::random().as_uuid(),
        };
        let now = self.now.as_millis();
        let request = BackfillRequest {
            id: backfill,
            first: UtcTime::from_millis(now - 29),
            last: UtcTime::from_millis(now - 10 + self.random.below(15)),
            count: 3,
            schedule: "@daily".to_owned(),
            dst: "ü".to_owned(),
        };
        let (waiting, open_backfills) = match self.model.controls(u64::MAX) {
            FleetControls::Changed { triggers, backfills, .. } => (triggers, backfills),
            _ => panic!("no group has that revision"),
        };
        let known = self.random.chance(0.8);
        let command = match self.random.below(20) {
            0 => JobCommand::Pause(PauseNote {
                actor: String::new(),
                text: self.pick(&["", "a \"note\""]).to_owned(),
            }),
            1..=3 => JobCommand::Resume,
            4 => JobCommand::Replace(text),
            5 => JobCommand::Restore,
            6 => JobCommand::Reset,
            7 => match waiting.first().filter(|_| known) {
                Some(trigger) => {
                    job.name = trigger.job.clone();
                    JobCommand::CancelTrigger(trigger.id)
                }
                None => JobCommand::CancelTrigger(id),
            },
            8 => JobCommand::Cancel { run },
            9..=11 => JobCommand::Backfill(request),
            12..=13 => match open_backfills.first().filter(|_| known) {
                Some(open) => {
                    job.name = open.job.clone();
                    JobCommand::CancelBackfill(open.id)
                }
                None => JobCommand::CancelBackfill(backfill),
            },
            14 if self.jobs[..2].contains(&job.name) => JobCommand::Reinstate(JobControls {
                revision: self.revision(&job.name).saturating_sub(1) + self.random.below(3),
                paused: false,
                note: PauseNote::default(),
                schedule: Some(text),
            }),
            _ => JobCommand::Trigger { id, life, payload },
        };
        if matches!(command, JobCommand::Trigger { .. }) {
            self.triggers.push(RunId::Triggered(id));
            self.triggers.drain(..self.triggers.len().saturating_sub(4));
        }
        if matches!(command, JobCommand::Backfill(_)) {
            self.backfills.push(backfill);
            self.backfills.drain(..self.backfills.len().saturating_sub(4));
        }
        let reply = self.ledger.command(job.clone(), command.clone()).await.expect("the ledger answers");
        let expected = self.model.command(reply.now, &job.name, &command);
        assert_eq!(reply.outcome, expected);
        self.count(match (expected, command) {
            (CommandReply::Accepted { .. }, JobCommand::CancelTrigger(_)) => "trigger cancelled",
            (CommandReply::Accepted { .. }, JobCommand::CancelBackfill(_)) => "backfill cancelled",
            (CommandReply::Accepted { .. }, JobCommand::Backfill(_)) => "backfill",
            (CommandReply::Accepted { .. }, JobCommand::Cancel { .. }) => "run cancelled",
            (CommandReply::Accepted { .. }, _) => "commanded",
            _ => "not commanded",
        });
    }

    async fn register(&mut self) {
        let registration =
            |run: &mut Self| Registration { job: run.job().name, schedule: run.random.below(12) };
        let jobs = vec![registration(self), registration(self)];
        let read =
            self.ledger.watermarks(self.group.clone(), jobs.clone()).await.expect("the ledger answers");
        assert_eq!(read.outcome, self.model.watermarks(&jobs));
        if jobs.iter().all(|registration| self.jobs[..2].contains(&registration.job)) {
            let reply =
                self.ledger.register(self.group.clone(), jobs.clone()).await.expect("the ledger answers");
            assert_eq!(reply.outcome, self.model.register(reply.now, &jobs));
            let described = |r: Registration| JobDescription {
                job: r.job,
                schedule: r.schedule.to_string(),
                dst: (r.schedule + 1).to_string(),
                terms: "ü".repeat(usize::try_from(r.schedule).expect("valid")),
                alert_after: (r.schedule > 5).then(|| Duration::from_millis(r.schedule)),
            };
            let kind =
                Registration { job: LockName::new("k/").expect("valid"), schedule: self.random.below(12) };
            let described: Vec<_> = jobs.into_iter().chain([kind]).map(described).collect();
            let reply = self
                .ledger
                .describe(self.group.clone(), described.clone())
                .await
                .expect("the ledger answers");
            self.model.describe(reply.now, &described);
            self.count("registered");
        }
    }

    /// Compares all that can be read.
    ///
    /// # Panics
    /// Panics like [`step`](Self::step).
    pub async fn read(&mut self) {
        let FleetControls::Changed { revision, .. } = self.model.controls(u64::MAX) else {
            panic!("no group has that revision")
        };
        let known = self.pick(&[0, revision, revision.saturating_sub(1)]);
        let orders = self.ledger.controls(self.group.clone(), known).await.expect("the ledger answers");
        assert_eq!(orders.outcome, self.model.controls(known));
        let id = self.pick(&[1, 2, 3]);
        let node = LiveNode {
            id: Uuid::from_u128(id),
            name: self.pick(&["a", "b ü"]).to_owned(),
            jobs: self.random.number(),
            room: u32::try_from(self.random.below(5)).expect("valid"),
            kinds: self.pick(&[vec![], vec!["k".to_owned(), "l ü".to_owned()]]),
            leading: self.random.chance(0.5),
        };
        let registration = |job: &LockName| Registration { job: job.clone(), schedule: 1 };
        let watermarks = self.jobs.iter().map(registration).collect();
        let (group, lease) =
            (self.group.clone(), if self.random.chance(0.1) { Duration::ZERO } else { self.lease() });
        let request = HeartbeatRequest { group, node, lease, known, watermarks };
        let reply = self.ledger.heartbeat(request.clone()).await.expect("the ledger answers");
        assert_eq!(reply.outcome, self.model.heartbeat(reply.now, &request));
        let summary = self.ledger.summary(self.group.clone()).await.expect("the ledger answers");
        assert_eq!(summary.outcome, self.model.summary(summary.now));
        let open = self.ledger.open_runs(self.group.clone()).await.expect("the ledger answers");
        assert_eq!(open.outcome, self.model.open_runs(open.now));
        let job = self.job();
        let history = self.ledger.history(job.clone(), 50).await.expect("the ledger answers");
        assert_eq!(history.outcome, self.model.history(&job.name, 50));
    }

    /// Sends an operation, and compares the answer.
    ///
    /// # Panics
    /// Panics if the answer differs from that of the rules, or if the ledger does not answer.
    pub async fn step(&mut self) {
        match self.random.below(20) {
            0..=9 => self.claim().await,
            10..=12 => self.renew().await,
            13..=17 => self.end().await,
            18 => self.command().await,
            _ if self.random.chance(0.3) => self.instance().await,
            _ if self.random.chance(0.5) => self.register().await,
            _ => self.read().await,
        }
    }
}

fn name(text: &str) -> LockName {
    LockName::new(text).expect("valid name")
}
