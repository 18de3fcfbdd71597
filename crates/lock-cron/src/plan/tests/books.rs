//! The books of a fleet: each due instant is started, or counted in exactly one skip. Several planners share the rules
//! of a ledger in virtual time, under random policies, body durations and faults.

use super::*;
use lock_ledger::{
    AfterAttempt, ClaimRequest, EndRequest, FleetControls, GroupLedger, JobCommand, JobId, OverlapRule,
    PoolLimit, Registration, RenewRun, RunOutcome, RunRenewal, RunState,
};
use lock_testkit::{Seed, Stream};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// The time between two steps of the simulation, in ms.
const STEP: u64 = 100;
/// The begin of a history. Earlier times do not exist.
const BEGIN: UtcTime = UtcTime::from_millis(1_767_225_600_000);
const LEASE: Duration = Duration::from_secs(5);
/// The time with faults, and the time after it in which everything due must have been decided.
const FAULTS: Duration = Duration::from_secs(120);
const QUIET: Duration = Duration::from_secs(1_200);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A job of the group.
#[derive(Debug, Clone)]
struct SimJob {
    schedule: Schedule,
    terms: JobTerms,
    body: Duration,
}

impl SimJob {
    fn random(random: &mut Stream) -> Self {
        let schedules = ["* * * * * *", "*/2 * * * * *", "*/5 * * * * *", "*/20 * * * * *"];
        let overlaps = [
            Overlap::Skip,
            Overlap::QueueOne,
            Overlap::CancelPrevious,
            Overlap::Allow { max: 1 },
            Overlap::Allow { max: 2 },
            Overlap::Allow { max: 5 },
        ];
        let misfires = [
            Misfire::Skip,
            Misfire::FireOnce,
            Misfire::FireOnce,
            Misfire::FireAll { max: 3 },
            Misfire::FireAll { max: 12 },
        ];
        let pool = Some(PoolLimit { name: LockName::new("pool").unwrap(), max: 2 });
        let terms = JobTerms {
            placement: pick(random, &[Placement::Leader, Placement::Spread]),
            overlap: pick(random, &overlaps),
            misfire: pick(random, &misfires),
            grace: pick(random, &[None, Some(ms(1_000)), Some(ms(3_000))]),
            pool: pick(random, &[None, None, pool]),
            ..JobTerms::default()
        };
        let body = ms(pick(random, &[0, 300, 3_000, 7_000, 15_000]));
        Self { schedule: Schedule::cron(pick(random, &schedules)).unwrap(), terms, body }
    }
}

fn pick<T: Clone>(random: &mut Stream, from: &[T]) -> T {
    from[usize::try_from(random.below(from.len() as u64)).unwrap()].clone()
}

/// A claim that is repeated until there is a reply.
#[derive(Debug)]
struct Asking {
    due: Due,
    since: UtcTime,
    again: UtcTime,
    /// The time at which the reply arrives.
    reply: Option<(UtcTime, ClaimReply)>,
}

#[derive(Debug)]
struct Body {
    job: LockName,
    run: RunId,
    claim: ClaimId,
    ends: UtcTime,
}

/// A node. Without a planner, it is down.
#[derive(Debug)]
struct SimNode {
    id: Uuid,
    planner: Option<Planner>,
    /// This node's clock minus the server's, in ms.
    ahead: i64,
    max_running: u32,
    leads: bool,
    down_until: UtcTime,
    offline_until: UtcTime,
    stopped_until: UtcTime,
    beat: UtcTime,
    asking: Vec<Asking>,
    bodies: Vec<Body>,
    registering: BTreeSet<LockName>,
}

/// The decisions about a job's instants.
#[derive(Debug, Default)]
struct Book {
    started: BTreeSet<UtcTime>,
    skipped: BTreeSet<UtcTime>,
    claims: BTreeSet<ClaimId>,
    /// The instants whose runs had to wait for other runs.
    busy: BTreeSet<UtcTime>,
    /// The skips reported to the observers of all nodes.
    reported: u32,
}

struct Sim {
    random: Stream,
    now: UtcTime,
    ledger: GroupLedger,
    group: GroupName,
    jobs: BTreeMap<LockName, SimJob>,
    nodes: Vec<SimNode>,
    leader: Option<usize>,
    /// The time at which a former leader notices that it was replaced.
    replaced: Vec<(UtcTime, usize)>,
    /// Requests without a reply that arrive late.
    late: Vec<(UtcTime, ClaimRequest)>,
    books: BTreeMap<LockName, Book>,
    triggers: bool,
    wrong: Vec<String>,
}

impl Sim {
    fn new(seed: Seed) -> Self {
        let mut random = seed.stream();
        let jobs = 1 + random.below(2);
        let name = |number| LockName::new(format!("job-{number}")).unwrap();
        let jobs: BTreeMap<_, _> =
            (0..jobs).map(|number| (name(number), SimJob::random(&mut random))).collect();
        let nodes = 1 + random.below(3);
        let max_running = pick(&mut random, &[1, 2, 100]);
        let node = |number| SimNode {
            id: Uuid::from_u128(u128::from(number) + 1),
            planner: None,
            ahead: random.below(200).cast_signed() - 100,
            max_running,
            leads: false,
            down_until: BEGIN,
            offline_until: BEGIN,
            stopped_until: BEGIN,
            beat: BEGIN,
            asking: Vec::new(),
            bodies: Vec::new(),
            registering: BTreeSet::new(),
        };
        let nodes = (0..nodes).map(node).collect();
        let books = jobs.keys().map(|name| (name.clone(), Book::default())).collect();
        let mut ledger = GroupLedger::default();
        let registrations = jobs.iter().map(|(name, job)| registration(name, job)).collect::<Vec<_>>();
        ledger.register(BEGIN, &registrations);
        let (now, triggers) = (BEGIN, random.chance(0.2));
        let (leader, replaced, late, wrong) = (None, Vec::new(), Vec::new(), Vec::new());
        let group = GroupName::new("g").unwrap();
        Self { random, now, ledger, group, jobs, nodes, leader, replaced, late, books, triggers, wrong }
    }

    /// Runs a history, and returns the mistakes in its books.
    fn judge(mut self) -> Vec<String> {
        let end = BEGIN + FAULTS;
        while self.now < end + QUIET && (self.now < end || !self.is_decided(end)) && self.wrong.is_empty() {
            self.now = self.now + ms(STEP);
            if self.now < end {
                self.fault();
            }
            self.step();
        }
        if !self.is_decided(end) && self.wrong.is_empty() {
            self.wrong.push(format!("undecided after {QUIET:?}"));
        }
        for (name, job) in &self.jobs {
            let book = &self.books[name];
            let due = job.schedule.after(BEGIN).take_while(|at| *at <= end);
            let lost = due.filter(|at| !book.started.contains(at) && !book.skipped.contains(at));
            let lost: Vec<_> = lost.map(since_begin).collect();
            if !lost.is_empty() {
                self.wrong.push(format!("{name}: in no record: {lost:?}"));
            }
            // A triggered run may be skipped, too.
            if !self.triggers && book.reported as usize > book.skipped.len() {
                self.wrong.push(format!("{name}: {} skips, {} reported", book.skipped.len(), book.reported));
            }
        }
        if !self.wrong.is_empty() {
            for (name, job) in &self.jobs {
                let SimJob { schedule, terms, body } = job;
                let JobTerms { placement, overlap, misfire, grace, pool, .. } = terms;
                self.wrong.push(format!(
                    "{name}: {schedule}, body {body:?}, {placement:?}, {overlap:?}, {misfire:?}, grace {grace:?}, {pool:?}"
                ));
            }
        }
        self.wrong
    }

    fn is_decided(&self, end: UtcTime) -> bool {
        self.jobs.iter().all(|(name, job)| {
            let last = job.schedule.after(BEGIN).take_while(|at| *at <= end).last();
            let mark = self.ledger.watermarks(&[registration(name, job)])[0];
            last.is_none_or(|last| mark.is_some_and(|mark| mark >= last))
        })
    }

    /// Injects a fault every few seconds.
    fn fault(&mut self) {
        if !self.random.chance(0.02) {
            return;
        }
        let node = usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap();
        let until = self.now + ms(self.random.below(25_000));
        match self.random.below(7) {
            0 => self.crash(node, until),
            1 => (0..self.nodes.len()).for_each(|node| self.crash(node, until)),
            2 => self.nodes[node].offline_until = until,
            3 => self.nodes.iter_mut().for_each(|node| node.offline_until = until),
            4 => self.nodes[node].stopped_until = until,
            5 => self.replace_leader(node),
            _ if self.triggers => {
                let (job, life) =
                    (pick(&mut self.random, &self.jobs.keys().cloned().collect::<Vec<_>>()), ms(60_000));
                let id = Uuid::from_u128(u128::from(self.random.number()));
                self.ledger.command(self.now, &job, &JobCommand::Trigger { id, life, payload: None });
            }
            _ => {}
        }
    }

    fn crash(&mut self, node: usize, until: UtcTime) {
        let node = &mut self.nodes[node];
        // Its unanswered requests may still arrive.
        for asking in node.asking.drain(..) {
            if self.random.chance(0.5) {
                self.late.push((self.now + ms(self.random.below(3_000)), *asking.due.request));
            }
        }
        (node.planner, node.leads, node.down_until) = (None, false, until);
        node.bodies.clear();
        node.registering.clear();
    }

    /// Another node leads. The leader before it notices that later.
    fn replace_leader(&mut self, node: usize) {
        if let Some(before) = self.leader.replace(node).filter(|before| *before != node) {
            self.replaced.push((self.now + ms(self.random.below(3_000)), before));
        }
    }

    fn step(&mut self) {
        let now = self.now;
        let (arrived, late) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = late;
        let arrived: Vec<(UtcTime, ClaimRequest)> = arrived;
        for (_, request) in arrived {
            self.decide(&request);
        }
        let (noticed, replaced) =
            std::mem::take(&mut self.replaced).into_iter().partition(|(at, _)| *at <= now);
        self.replaced = replaced;
        let noticed: Vec<(UtcTime, usize)> = noticed;
        for (_, node) in noticed {
            if self.leader != Some(node) {
                self.resign(node);
            }
        }
        let is_up =
            |node: &SimNode| node.down_until <= now && node.offline_until <= now && node.stopped_until <= now;
        if self.leader.is_none_or(|leader| !is_up(&self.nodes[leader]))
            && self.random.chance(0.02)
            && let Some(next) = self.nodes.iter().position(is_up)
        {
            self.replace_leader(next);
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].down_until <= now && self.nodes[node].stopped_until <= now {
                self.run(node);
            }
        }
    }

    fn resign(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if std::mem::take(&mut node.leads) {
            node.planner.iter_mut().for_each(Planner::resigned);
            node.registering.clear();
        }
    }

    /// Lets the ledger decide about a claim, and enters the decision in the books.
    fn decide(&mut self, request: &ClaimRequest) -> ClaimReply {
        let reply = self.ledger.claim(self.now, request);
        let Some(at) = request.run.scheduled() else { return reply };
        let (name, job) = self.jobs.get_key_value(&request.job.name).unwrap();
        let book = self.books.get_mut(name).unwrap();
        let mut instants = Vec::new();
        match (&reply, &request.skip) {
            (ClaimReply::Busy { .. }, _) => drop(book.busy.insert(at)),
            (ClaimReply::Claimed { attempt: 1, .. }, _) if book.claims.insert(request.claim) => {
                if book.skipped.contains(&at) || !book.started.insert(at) {
                    self.wrong.push(format!("{name}: {} s started again", since_begin(at)));
                }
                let until = at + missed::grace(&job.terms, at, job.schedule.next_after(at));
                let may_be_late = request.catch_up == CatchUp::Yes
                    || book.busy.contains(&at)
                    || matches!(request.overlap, OverlapRule::Queue { .. });
                if self.now > until && !may_be_late {
                    self.wrong.push(format!(
                        "{name}: {} s started {:?} late",
                        since_begin(at),
                        self.now.since(at)
                    ));
                }
            }
            (ClaimReply::Skipped, Some(Skip { first, count, .. })) if book.claims.insert(request.claim) => {
                let first = first.scheduled().unwrap();
                instants.extend(job.schedule.after(first - ms(1)).take_while(|instant| *instant <= at));
                if instants.len() != *count as usize {
                    self.wrong.push(format!("{name}: {count} skips of {} instants", instants.len()));
                }
            }
            (ClaimReply::Skipped, None) if book.claims.insert(request.claim) => instants.push(at),
            _ => {}
        }
        for at in instants {
            if book.started.contains(&at) || !book.skipped.insert(at) {
                self.wrong.push(format!("{name}: {} s counted again", since_begin(at)));
            }
        }
        reply
    }
}

/// The steps of a node: its planner's commands, its registrations and heartbeats, its claims and their bodies.
impl Sim {
    fn run(&mut self, at: usize) {
        let leads = self.leader == Some(at);
        let online = self.nodes[at].offline_until <= self.now;
        let local = UtcTime::from_millis(self.now.as_millis().saturating_add_signed(self.nodes[at].ahead));
        if self.nodes[at].planner.is_none() {
            let mut planner = Planner::new(ClaimTerms {
                group: self.group.clone(),
                node: String::new(),
                lease: LEASE,
                history: u32::MAX,
                draw: ClaimId::random,
            });
            for (name, job) in &self.jobs {
                planner.add(local, name.clone(), job.schedule.clone(), job.terms.clone());
            }
            self.nodes[at].planner = Some(planner);
            self.nodes[at].beat = self.now;
        }
        let mut out = Vec::new();
        if leads && online && !self.nodes[at].leads {
            self.nodes[at].leads = true;
            self.nodes[at].planner.iter_mut().for_each(Planner::elected);
            self.nodes[at].registering = self.jobs.keys().cloned().collect();
        }
        if online {
            self.register(at, local);
            self.beat(at, &mut out);
            self.end_bodies(at);
        }
        self.ask(at, local, online, &mut out);
        let node = &mut self.nodes[at];
        let taken = node.bodies.len() + node.asking.len();
        let room = node.max_running.saturating_sub(u32::try_from(taken).unwrap());
        let planner = node.planner.as_mut().expect("the node is up");
        planner.tick(local, room, &mut Budget::default(), &mut out);
        self.execute(at, out);
    }

    fn execute(&mut self, at: usize, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Claim(due) => {
                    let (since, again) = (self.now, self.now);
                    self.nodes[at].asking.push(Asking { due, since, again, reply: None });
                }
                Command::CancelRunning(job) => {
                    let of_job = self.nodes[at].bodies.iter_mut().filter(|body| body.job == job);
                    of_job.for_each(|body| body.ends = self.now);
                }
                Command::Register(job) => drop(self.nodes[at].registering.insert(job)),
                Command::Skipped { job, reason, count } => {
                    let is_elsewhere = [SkipReason::DecidedElsewhere, SkipReason::Expired].contains(&reason);
                    if !is_elsewhere {
                        self.books.get_mut(&job).unwrap().reported += count;
                    }
                }
                Command::ReadControls | Command::CloseBackfill { .. } => {}
            }
        }
    }

    fn register(&mut self, at: usize, local: UtcTime) {
        let node = &mut self.nodes[at];
        for name in std::mem::take(&mut node.registering) {
            if self.random.chance(0.3) {
                node.registering.insert(name);
                continue;
            }
            let planner = node.planner.as_mut().expect("the node is up");
            let registration = planner.registration(&name).unwrap();
            let registered = self.ledger.register(self.now, std::slice::from_ref(&registration));
            planner.registered(&registration, registered[0].watermark, local);
        }
    }

    fn beat(&mut self, at: usize, out: &mut Vec<Command>) {
        if self.now < self.nodes[at].beat {
            return;
        }
        self.nodes[at].beat = self.now + ms(1_000);
        let has_room =
            |node: &&SimNode| node.down_until <= self.now && node.bodies.len() < node.max_running as usize;
        let this = self.nodes[at].id;
        let others =
            self.nodes.iter().filter(has_room).map(|node| node.id).filter(|id| *id != this).collect();
        let node = &mut self.nodes[at];
        let planner = node.planner.as_mut().expect("the node is up");
        let asked = planner.undecided(self.now);
        let watermarks = self.ledger.watermarks(&asked);
        planner.peers_read(Peers { this, others, read_at: self.now });
        for (registration, watermark) in asked.iter().zip(watermarks) {
            planner.observed(registration, watermark, self.now, out);
        }
        if let FleetControls::Changed { triggers, .. } = self.ledger.controls(u64::MAX) {
            for trigger in triggers {
                planner.triggered(&trigger.job, RunId::Triggered(trigger.id));
            }
        }
        let leads = node.leads;
        let bodies: Vec<_> =
            node.bodies.iter().map(|body| (body.job.clone(), body.run, body.claim)).collect();
        for (job, run, claim) in bodies {
            let renewal = self.ledger.renew(self.now, &RenewRun { job, run, claim, lease: LEASE });
            let of_claim = self.nodes[at].bodies.iter_mut().filter(|body| body.claim == claim);
            match renewal {
                RunRenewal::Renewed => {}
                _ => of_claim.for_each(|body| body.ends = self.now),
            }
        }
        if leads {
            for open in self.ledger.open_runs(self.now) {
                if open.state == RunState::Orphaned {
                    self.end(&open.job, open.run, open.claim);
                }
            }
        }
    }

    fn end_bodies(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let (ended, bodies) =
            std::mem::take(&mut node.bodies).into_iter().partition(|body| body.ends <= self.now);
        node.bodies = bodies;
        let ended: Vec<Body> = ended;
        for Body { job, run, claim, .. } in ended {
            self.end(&job, run, claim);
            self.nodes[at].planner.iter_mut().for_each(|planner| planner.run_ended(&job));
        }
    }

    fn end(&mut self, job: &LockName, run: RunId, claim: ClaimId) {
        let job = JobId { group: self.group.clone(), name: job.clone() };
        let (outcome, detail, then) = (RunOutcome::Succeeded, String::new(), AfterAttempt::Finish);
        let request = EndRequest { job, run, claim, outcome, detail, then, history: u32::MAX };
        self.ledger.end(self.now, &request);
    }

    /// Sends the claims of a node, repeats them, and delivers the replies.
    fn ask(&mut self, at: usize, local: UtcTime, online: bool, out: &mut Vec<Command>) {
        for mut asking in std::mem::take(&mut self.nodes[at].asking) {
            if online && asking.reply.is_none() && asking.again <= self.now {
                let fate = self.random.below(20);
                let wait = ms(self.random.below(300));
                match fate {
                    0 => self.late.push((
                        self.now + ms(self.random.below(4_000)),
                        ClaimRequest::clone(&asking.due.request),
                    )),
                    1 => drop(self.decide(&asking.due.request)),
                    2 => {}
                    _ => asking.reply = Some((self.now + wait, self.decide(&asking.due.request))),
                }
                asking.due.in_doubt |= fate < 3;
                asking.again = self.now + ms(1_000) + wait;
            }
            let outcome = match asking.reply.take() {
                Some((arrives, reply)) if arrives <= self.now => ClaimOutcome::Answered(reply),
                None if asking.since + LEASE < self.now => {
                    asking.due.in_doubt = true;
                    ClaimOutcome::Failed
                }
                reply => {
                    self.nodes[at].asking.push(Asking { reply, ..asking });
                    continue;
                }
            };
            let due = asking.due;
            let granted = matches!(outcome, ClaimOutcome::Answered(ClaimReply::Claimed { .. }));
            let planner = self.nodes[at].planner.as_mut().expect("the node is up");
            planner.claim_answered(local, &due, outcome, out);
            if granted {
                let ClaimRequest { job, run, claim, .. } = *due.request;
                let ends = self.now + self.jobs[&job.name].body;
                self.nodes[at].bodies.push(Body { job: job.name, run, claim, ends });
            }
        }
    }
}

fn registration(name: &LockName, job: &SimJob) -> Registration {
    Registration { job: name.clone(), schedule: job.schedule.identity() }
}

fn since_begin(at: UtcTime) -> f64 {
    at.since(BEGIN).as_secs_f64()
}

#[test]
fn each_due_instant_is_started_or_counted_once() {
    let histories = if std::env::var_os("LOCK_LONG").is_some() { 10_000 } else { 100 };
    let mut seeds = Seed::of_this_run().stream();
    let given = std::env::var_os(Seed::VARIABLE).is_some();
    for number in 0..histories {
        // A given seed is that of a single history.
        let seed = if given { Seed::of_this_run() } else { Seed::new(seeds.number()) };
        let wrong = Sim::new(seed).judge();
        assert!(wrong.is_empty(), "history {number}, {}={seed}:\n{}", Seed::VARIABLE, wrong.join("\n"));
        if given {
            return;
        }
    }
}
