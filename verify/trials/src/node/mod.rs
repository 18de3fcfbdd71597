//! The commands of the executable, one function each. Those of a fleet, of payments and of permits have a file
//! each.

mod cron;
mod pay;
pub mod permit;

use crate::{
    cli::{Cli, Command, Kind},
    fenced::FencedTable,
    line::{Order, Orders, Report, SectionEnd, now},
    referee::Witness,
};
use lock_core::{
    Lock, LockErrorKind, LockFactory, LockName, LockOptions,
    backend::LeaseId,
    election::{Election, ElectionOptions, Role, Term},
    inspect::ForceReleaseOutcome,
    shutdown_signal,
};
use lock_cron::Placement;
use lock_testkit::{RawRedis, Seed, Stream};
use permit::{Held, Named};
use std::{
    convert::Infallible,
    error::Error,
    future::pending,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::{JoinSet, spawn_blocking};

/// The default time limit of hand-offs, used if the command line sets their number.
const MAX_CHAIN_TIME: Duration = Duration::from_millis(40);

/// The reason why a process ends early.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Connects and executes the command.
///
/// # Errors
/// The error of the connection or of the lock.
///
/// # Cancel safety
/// Dropping it leaves held locks to expire.
pub async fn run(cli: &Cli) -> Result<(), Failure> {
    // A quorum has no run ledger.
    let (store, ledger) = match cli.command {
        Command::Cron { .. } => {
            let (store, ledger) = cli.client.connect_with_ledger(&cli.url).await?;
            (store, Some(ledger))
        }
        _ => (cli.client.connect(&cli.url).await?, None),
    };
    let mut options = LockOptions::new().lease(cli.lease);
    if let Some(passes) = cli.hand_off {
        options = options.hand_off(passes, MAX_CHAIN_TIME);
    }
    if let Some(budget) = cli.outage_budget {
        options = options.outage_budget(budget);
    }
    let locks = LockFactory::builder(store).options(options).build()?;
    let witness = cli.referee.map(|referee| Witness::of(referee, cli.lease / 20)).transpose()?;
    let mut orders = Orders::from_stdin();
    match &cli.command {
        Command::Count { lock, tasks, sections, counter } => {
            let counter = Counter::connect(&cli.url, counter)?;
            count(&locks.named(lock)?, *tasks, *sections, counter, &mut orders).await?;
        }
        Command::Hold { lock } => {
            hold(&named(&locks, cli.kind, lock)?, witness, &mut orders).await?;
        }
        Command::Contend { lock, tasks, takes } => {
            contend(&locks.named(lock)?, *tasks, *takes, witness).await?;
        }
        Command::Work { pause, takes, fence, seed, locks: names } => {
            let terms = WorkTerms { pause: *pause, takes: *takes, fence: fence.clone(), seed: *seed };
            let named =
                names.iter().map(|name| named(&locks, cli.kind, name)).collect::<Result<Vec<_>, _>>()?;
            work(named, terms, witness, &mut orders).await?;
        }
        Command::Share { tasks, names, seed } => {
            Report::Ready.say();
            permit::share(&locks, names, *tasks, (cli.lease, *seed), witness).await?;
        }
        Command::Queue { name, tasks, seed } => {
            permit::queue(&locks, name, (*tasks, *seed), &mut orders).await?;
        }
        Command::Cron { group, schedule, takes, adopt, catch_up, max_running, pool, on_leader, fence } => {
            let placement = if *on_leader { Placement::Leader } else { Placement::Spread };
            let (takes, adopt, catch_up) = (*takes, *adopt, *catch_up);
            let (max_running, pool, fence) = (*max_running, *pool, fence.clone());
            let work = cron::Work { takes, adopt, catch_up, max_running, pool, placement, fence };
            let ledger = ledger.ok_or("a fleet needs a run ledger")?;
            cron::run((&locks, ledger), cli.lease, group, schedule.as_deref(), work, orders).await?;
        }
        Command::Elect { name } => {
            elect(&locks, name, cli.lease, witness, orders).await?;
        }
        Command::Pay { database, requests, keys, seed } => {
            let (database, requests, keys, seed) = (database.clone(), *requests, *keys, *seed);
            pay::run(&locks, pay::Terms { database, requests, keys, seed }, &mut orders).await?;
        }
        Command::Force { lock } => {
            let forced = locks.force_release(&LockName::new(lock)?).await?;
            Report::Forced { forced: matches!(forced, ForceReleaseOutcome::Released { .. }) }.say();
        }
        Command::Inspect { lock } => {
            let stored = locks.inspect(&LockName::new(lock)?).await?.stored;
            let remaining = stored.as_ref().map(|held| held.remaining.unwrap_or_default().as_millis());
            Report::Locked { locked: stored.is_some(), remaining }.say();
        }
    }
    let left = locks.shutdown().await;
    if left.is_clean() { Ok(()) } else { Err("a release was not confirmed".into()) }
}

/// Returns the lock or the pool of this kind.
fn named(locks: &LockFactory, kind: Kind, name: &str) -> Result<Named, Failure> {
    Ok(match kind {
        Kind::Lock => Named::Lock(locks.named(name)?),
        Kind::Fair => Named::Fair(locks.fair(name)?),
        Kind::Read => Named::Read(locks.rw_lock(name)?.read().clone()),
        Kind::Write => Named::Write(locks.rw_lock(name)?.write().clone()),
    })
}

/// A key that is read and then written. Only the lock prevents lost increments.
#[derive(Clone)]
struct Counter {
    connection: Arc<Mutex<RawRedis>>,
    key: String,
}

impl Counter {
    fn connect(url: &str, key: &str) -> Result<Self, Failure> {
        let address = url.strip_prefix("redis://").ok_or("the counter requires a `redis://` address")?;
        let connection = RawRedis::connect(address.parse()?)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), key: key.to_owned() })
    }

    async fn increment(&self) -> Result<(), Failure> {
        let this = self.clone();
        let work = move || {
            let mut connection = this.connection.lock().map_err(|_| "an earlier increment panicked")?;
            let before = connection.try_command(&["GET", &this.key])?;
            let before: u64 = if before.is_nil() { 0 } else { before.text().parse()? };
            connection.try_command(&["SET", &this.key, &(before + 1).to_string()])?;
            Ok(())
        };
        spawn_blocking(work).await?
    }
}

/// Passes through sections that lose increments unless the lock serializes them.
async fn count(
    lock: &Lock,
    tasks: usize,
    sections: usize,
    counter: Counter,
    orders: &mut Orders,
) -> Result<(), Failure> {
    Report::Ready.say();
    orders.wait_for(&Order::Go).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        running.spawn(count_in_task(lock.clone(), sections, begun.clone(), counter.clone()));
    }
    let mut grants = Vec::new();
    while let Some(done) = running.join_next().await {
        grants.extend(done??);
    }
    for &(token, at) in &grants {
        Report::Token { token, at }.say();
    }
    Report::Done { sections: grants.len() }.say();
    Ok(())
}

async fn count_in_task(
    lock: Lock,
    sections: usize,
    begun: Arc<AtomicUsize>,
    counter: Counter,
) -> Result<Vec<(u64, u64)>, Failure> {
    let mut grants = Vec::new();
    while begun.fetch_add(1, Ordering::Relaxed) < sections {
        let guard = lock.acquire().await?;
        grants.push((guard.fencing_token().get(), now()));
        counter.increment().await?;
        if !guard.release().await?.was_held() {
            return Err("a hold was lost".into());
        }
    }
    Ok(grants)
}

/// The lease of the last hold, and the number of its hand-offs.
type Chain = Arc<Mutex<Option<(LeaseId, u32)>>>;

/// One section in this many takes longer.
const LONG_EVERY: u64 = 8;

/// Passes through sections of one lock for as long as the process lives, and ends with the first error of any task.
async fn contend(
    lock: &Lock,
    tasks: usize,
    takes: Duration,
    witness: Option<Witness>,
) -> Result<(), Failure> {
    let (chain, mut running) = (Chain::default(), JoinSet::new());
    for _ in 0..tasks {
        running.spawn(contend_in_task(lock.clone(), takes, witness.clone(), chain.clone()));
    }
    match running.join_next().await {
        Some(done) => done?,
        None => Ok(()),
    }
}

async fn contend_in_task(
    lock: Lock,
    takes: Duration,
    witness: Option<Witness>,
    chain: Chain,
) -> Result<(), Failure> {
    loop {
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            // A busy machine may take longer than the outage budget of a short lease.
            Err(error) if error.kind() == LockErrorKind::Unavailable => continue,
            Err(error) => return Err(error.into()),
        };
        let token = guard.fencing_token().get();
        let passes = passes(&chain, guard.hold().lease_id());
        let inside = witness.as_ref().map(|witness| witness.enters(guard.hold()));
        Report::Inside { token, passes, at: now() }.say();
        if token.is_multiple_of(LONG_EVERY) && !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        Report::Left { token, at: now() }.say();
        drop(inside);
        // If the hold was lost in the meantime, the referee judges that.
        let _ = guard.release().await;
    }
}

/// Returns the number of hand-offs of the current lease before this hold.
fn passes(chain: &Chain, lease: LeaseId) -> u32 {
    let mut last = chain.lock().unwrap_or_else(PoisonError::into_inner);
    let passes = match *last {
        Some((before, passes)) if before == lease => passes + 1,
        _ => 0,
    };
    *last = Some((lease, passes));
    passes
}

/// The settings of the tasks of `work`.
#[derive(Debug, Clone)]
struct WorkTerms {
    pause: Duration,
    takes: Duration,
    fence: Option<PathBuf>,
    seed: Seed,
}

/// Passes through sections of several locks, with one task per lock, until it is stopped. Ends with the first error of an
/// acquire. Reports follow at the end, so that they do not affect
/// the measurements.
async fn work(
    locks: Vec<Named>,
    terms: WorkTerms,
    witness: Option<Witness>,
    orders: &mut Orders,
) -> Result<(), Failure> {
    let (over, mut running) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for (number, lock) in locks.into_iter().enumerate() {
        let table = match &terms.fence {
            Some(folder) => Some(FencedTable::open(&folder.join(lock.name().as_str())).await?),
            None => None,
        };
        let worker = Worker { lock, terms: terms.clone(), table, witness: witness.clone() };
        let random = Seed::new(terms.seed.get() ^ number as u64).stream();
        running.spawn(worker.work(random, over.clone()));
    }
    Report::Ready.say();
    let mut sections = Vec::new();
    loop {
        tokio::select! {
            () = orders.wait_for(&Order::Stop) => over.store(true, Ordering::Relaxed),
            done = running.join_next() => match done {
                Some(done) => sections.extend(done??),
                None => break,
            },
        }
    }
    sections.iter().for_each(Report::say);
    Report::Done { sections: sections.len() }.say();
    Ok(())
}

/// A task of `work`.
struct Worker {
    lock: Named,
    terms: WorkTerms,
    table: Option<FencedTable>,
    witness: Option<Witness>,
}

impl Worker {
    async fn work(self, mut random: Stream, over: Arc<AtomicBool>) -> Result<Vec<Report>, Failure> {
        let longest = u64::try_from(2 * self.terms.pause.as_micros())?;
        let mut sections = Vec::new();
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_micros(random.below(longest))).await;
            sections.push(self.section().await?);
        }
        Ok(sections)
    }

    async fn section(&self) -> Result<Report, Failure> {
        let asked = now();
        let guard = self.lock.acquire().await?;
        let (at, token) = (now(), guard.hold.fencing_token());
        let inside = self.witness.as_ref().map(|witness| witness.takes(guard.hold.clone(), guard.part));
        let mut before = None;
        if let Some(table) = &self.table {
            before = table.read(token).await?;
        }
        if !self.terms.takes.is_zero() {
            tokio::time::sleep(self.terms.takes).await;
        }
        let accepted = match (&self.table, before) {
            (Some(table), Some(before)) => table.write(token, before + 1).await?,
            _ => false,
        };
        drop(inside);
        let end = match guard.release().await {
            Ok(outcome) if outcome.was_held() => SectionEnd::Released,
            Ok(_) => SectionEnd::Lost,
            Err(_) => SectionEnd::Failed,
        };
        let lock = self.lock.name().to_string();
        Ok(Report::Section { lock, token: token.get(), asked, at, end, accepted })
    }
}

/// Holds the lock, one hold at a time, controlled by orders.
async fn hold(lock: &Named, witness: Option<Witness>, orders: &mut Orders) -> Result<(), Failure> {
    let enters = |guard: &Held| witness.as_ref().map(|witness| witness.takes(guard.hold.clone(), guard.part));
    let mut guard = acquire(lock).await?;
    let mut inside = enters(&guard);
    let mut table: Option<FencedTable> = None;
    let mut read = None;
    loop {
        match orders.next().await {
            Order::Release => {
                drop(inside.take());
                let outcome = guard.release().await?;
                Report::Released { at: now(), was_held: outcome.was_held() }.say();
                orders.wait_for(&Order::Acquire).await;
                guard = acquire(lock).await?;
                inside = enters(&guard);
            }
            Order::IsHeld => Report::IsHeld { held: guard.hold.is_held() }.say(),
            Order::Lost => Report::Lost { reason: format!("{:?}", guard.hold.lost().await) }.say(),
            Order::Read { file } => {
                // The table stays open: a process that is suspended while it closes a database locks it for all others.
                let opened = FencedTable::open(&file).await?;
                let value = table.insert(opened).read(guard.hold.fencing_token()).await?;
                Report::Read { fresh: value.is_some() }.say();
                read = value;
            }
            Order::Write => {
                let (Some(table), Some(before)) = (&table, read) else {
                    return Err("a write requires a fresh read before it".into());
                };
                let accepted = table.write(guard.hold.fencing_token(), before + 1).await?;
                Report::Write { accepted }.say();
            }
            Order::Quit => return Ok(()),
            other => return Err(format!("a holder does not know the order {other:?}").into()),
        }
    }
}

async fn acquire(lock: &Named) -> Result<Held, Failure> {
    let guard = lock.acquire().await?;
    Report::Held { token: guard.hold.fencing_token().get(), at: now() }.say();
    Ok(guard)
}

/// Takes part in an election until the process is terminated.
async fn elect(
    locks: &LockFactory,
    name: &str,
    lease: Duration,
    witness: Option<Witness>,
    orders: Orders,
) -> Result<(), Failure> {
    let election = locks.election(name)?.with_options(ElectionOptions::new().lease(lease))?;
    let process = locks.process_id().to_string();
    Report::Candidate { process: process.clone() }.say();
    let obeying = tokio::spawn(tell_role(election.clone(), process, orders));
    let body = |term: Term| {
        let inside = witness.as_ref().map(|witness| witness.enters(term.hold().clone()));
        Report::Elected { token: term.fencing_token().get(), at: now() }.say();
        async move {
            // Dropped in reverse order: the referee is notified first.
            let _ended = ReportsEnd;
            let _inside = inside;
            pending::<Result<(), Infallible>>().await
        }
    };
    election.lead(body).until(shutdown_signal()?).await?;
    obeying.abort();
    Report::Stopped.say();
    Ok(())
}

/// Reports the end of a body when it is dropped.
struct ReportsEnd;

impl Drop for ReportsEnd {
    fn drop(&mut self) {
        Report::BodyEnded { at: now() }.say();
    }
}

async fn tell_role(election: Election, process: String, mut orders: Orders) {
    let role = election.role();
    loop {
        orders.wait_for(&Order::Role).await;
        let (leading, leader) = match &*role.borrow() {
            role if role.is_leading() => (true, process.clone()),
            Role::Following { leader: Some(leader) } => {
                (false, leader.process().map_or_else(String::new, |id| id.to_string()))
            }
            _ => (false, String::new()),
        };
        Report::Role { leading, leader }.say();
    }
}
