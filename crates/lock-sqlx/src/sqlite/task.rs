//! The task that has the connection: it executes the requests that have arrived together in one transaction, and looks
//! for releases by other processes.

use super::{
    directory,
    error::{failed, is_busy},
    file::{Open, Place},
    ledger,
    row::{micros, millis},
    rows::{self, Record, Rows, as_json},
};
use lock_core::{
    LockName, Worker,
    backend::{
        Applied, BackendError, BackendErrorKind, ForceReleaseRequest, ForceReleased, Inspected, MissedWakes,
        Outcome, ProcessId, Reply, Submission, SubscriptionRegistry,
    },
    clock::UtcTime,
    inspect::{ListLimits, Listing},
};
use lock_ledger::{
    GroupName,
    stored::{Access, Step},
};
use serde_json::Value;
use sqlx::SqliteConnection;
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    future::ready,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

/// The maximum number of requests in a transaction.
const MAX_BATCH: usize = 256;

/// The pauses between two looks for releases by other processes, while a task of this one waits: a sixteenth of the
/// time since something happened, within these limits. So a wake-up is late by a small part of the wait.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The pause between two attempts to open the file again, while a task waits.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);

/// The number of transactions after which expired rows are deleted, and the least number of rows that are deleted then.
const SWEEP_EVERY: u32 = 64;
const SWEEP_ROWS: usize = 100;

const FREED: &str = "
select name, freed from distlock_lock where name in (select value from json_each(?1))
union all
select name, freed from distlock_pool where name in (select value from json_each(?1))";

/// Deletes free rows whose counters have expired, also during the hold, and pools in which everything has ended. Notes the
/// time.
const SWEEP: &str = "
update distlock_meta set seen_us = max(seen_us, ?3);
delete from distlock_lock where name in (
    select name from distlock_lock where (keep_ms < ?1 or last is null) and (lease is null or expires_ms < ?1) limit ?2
);
delete from distlock_pool where name in (select name from distlock_pool where expires_ms < ?1 limit ?2)";

/// The number of no contents of a file.
const UNSEEN: i64 = -1;

/// The sender of an answer.
pub(super) type Ask<T> = oneshot::Sender<Result<T, BackendError>>;

/// A request to the task.
pub(super) enum Job {
    Lease(Submission),
    Force(ForceReleaseRequest, Ask<Reply<ForceReleased>>),
    Inspect(LockName, Ask<Reply<Inspected>>),
    /// Reports the releases of this name from now on.
    Watch(LockName, Ask<()>),
    WriteCard {
        process: ProcessId,
        card: String,
        ttl: Duration,
        reply: Ask<()>,
    },
    RemoveCard(ProcessId, Ask<()>),
    /// A transaction of the run ledger.
    Transact {
        group: GroupName,
        access: Access,
        step: Step,
        reply: Ask<()>,
    },
    ReadCard(ProcessId, Ask<Option<String>>),
    List {
        prefix: String,
        limits: ListLimits,
        reply: Ask<Listing>,
    },
}

/// A request that changes a lock.
enum Change {
    Lease(Submission),
    Force(ForceReleaseRequest, Ask<Reply<ForceReleased>>),
}

/// A request with its outcome, which counts once the transaction is committed.
enum Done {
    Lease(Submission, Outcome),
    Force(Ask<Reply<ForceReleased>>, ForceReleased),
}

impl Change {
    fn name(&self) -> &LockName {
        match self {
            Self::Lease(submission) => submission.operation().name(),
            Self::Force(request, _) => &request.name,
        }
    }

    fn apply(self, now: UtcTime, record: &mut Record) -> Done {
        match self {
            Self::Lease(submission) => {
                let outcome = record.apply(now, submission.operation());
                Done::Lease(submission, outcome)
            }
            Self::Force(request, reply) => Done::Force(reply, record.force_release(now, &request)),
        }
    }

    fn fail(self, error: BackendError) {
        match self {
            Self::Lease(submission) => submission.complete(Err(error)),
            Self::Force(_, reply) => answer(reply, Err(error)),
        }
    }
}

impl Done {
    fn report(self, now: UtcTime) {
        match self {
            Self::Lease(submission, outcome) => submission.complete(Ok(Reply::new(now, outcome))),
            Self::Force(reply, outcome) => answer(reply, Ok(Reply::new(now, outcome))),
        }
    }

    fn fail(self, error: BackendError) {
        match self {
            Self::Lease(submission, _) => submission.complete(Err(error)),
            Self::Force(reply, _) => answer(reply, Err(error)),
        }
    }
}

pub(super) struct Task {
    place: Place,
    open: Option<Open>,
    watchers: Arc<SubscriptionRegistry>,
    /// The last release of each watched name that was reported.
    reported: HashMap<LockName, i64>,
    /// SQLite's number for the contents of the file. Only other connections change it.
    version: i64,
    /// The time of the last request, or change by another connection.
    active: Instant,
    /// The time of the last look for releases.
    looked: Instant,
    transactions: u32,
    /// Requests that change no lock.
    others: VecDeque<Job>,
    /// The number of rows that were written since the last sweep.
    written: usize,
    /// Keeps the thread of this task running.
    _keeper: Worker,
}

impl Task {
    pub(super) fn new(
        place: Place,
        open: Option<Open>,
        watchers: Arc<SubscriptionRegistry>,
        keeper: Worker,
    ) -> Self {
        let (reported, now) = (HashMap::new(), Instant::now());
        let (active, looked) = (now, now);
        Self {
            place,
            open,
            watchers,
            reported,
            version: UNSEEN,
            active,
            looked,
            transactions: 0,
            others: VecDeque::new(),
            written: 0,
            _keeper: keeper,
        }
    }

    /// Serves the queue until the store is dropped.
    pub(super) async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Job>) {
        let mut jobs = Vec::new();
        loop {
            let is_watching = !self.watchers.is_empty();
            let pause = match self.open {
                Some(_) => (self.active.elapsed() / 16).clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
                None => REOPEN_PAUSE,
            };
            // Not left to the timer below, which starts again with each request: they may arrive all the time.
            if is_watching && self.looked.elapsed() >= pause {
                self.look().await;
                continue;
            }
            tokio::select! {
                biased;
                taken = queue.recv_many(&mut jobs, MAX_BATCH) => match taken {
                    0 => return,
                    _ => self.serve(jobs.drain(..)).await,
                },
                () = ready(()), if !self.others.is_empty() => self.serve([].into_iter()).await,
                () = sleep(pause.saturating_sub(self.looked.elapsed())), if is_watching => {}
            }
        }
    }

    async fn serve(&mut self, jobs: impl Iterator<Item = Job>) {
        self.active = Instant::now();
        let mut changes = Vec::new();
        for job in jobs {
            match job {
                // Its caller has given up.
                Job::Lease(submission) if !submission.is_wanted() => {}
                Job::Lease(submission) => changes.push(Change::Lease(submission)),
                Job::Force(request, reply) => changes.push(Change::Force(request, reply)),
                other => self.others.push_back(other),
            }
        }
        if !changes.is_empty() {
            self.change(changes).await;
        }
        // One, so that the next leases do not wait for all of them.
        if let Some(job) = self.others.pop_front() {
            self.answer(job).await;
        }
    }

    /// Returns the connection, and opens it if necessary.
    async fn connection(&mut self) -> Result<&mut SqliteConnection, BackendError> {
        if self.open.as_ref().is_some_and(|open| !self.place.is_still(open)) {
            tracing::warn!(file = %self.place.path().display(), "sqlite file of locks replaced, opening it again");
            self.open = None;
            self.watchers.server_restarted();
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let open = self.place.open().await?;
                self.version = UNSEEN;
                self.watchers.wake_all(MissedWakes::Reconnected);
                open
            }
        };
        Ok(&mut self.open.insert(open).connection)
    }

    /// Executes requests in one transaction, in their order.
    async fn change(&mut self, changes: Vec<Change>) {
        let mut rows = match self.begin(&changes).await {
            Ok(rows) => rows,
            Err(error) => return changes.into_iter().for_each(|change| change.fail(error.clone())),
        };
        // Read while the transaction has the write lock, so no process reads an earlier time after it.
        let now = self.place.now();
        let mut done = Vec::with_capacity(changes.len());
        for change in changes {
            match rows.of(change.name()) {
                Ok(record) => done.push(change.apply(now, record)),
                Err(error) => change.fail(error),
            }
        }
        let changed = rows.changed(now);
        self.written += changed.locks.len() + changed.pools.len();
        if changed.is_empty() {
            done.into_iter().for_each(|done| done.report(now));
            return self.roll_back().await;
        }
        if let Err(error) = self.write(changed.locks, changed.pools).await {
            done.into_iter().for_each(|done| done.fail(error.clone()));
            return self.roll_back().await;
        }
        done.into_iter().for_each(|done| done.report(now));
        for (name, freed) in changed.freed {
            self.reported.entry(name.clone()).and_modify(|reported| *reported = freed);
            self.watchers.released(&name);
        }
        self.transactions = self.transactions.wrapping_add(1);
        if self.transactions.is_multiple_of(SWEEP_EVERY) {
            self.sweep(now).await;
        }
    }

    /// Begins a transaction, and reads the rows of the requests.
    async fn begin(&mut self, changes: &[Change]) -> Result<Rows, BackendError> {
        let names: BTreeSet<_> = changes.iter().map(|change| change.name().clone()).collect();
        let connection = self.connection().await?;
        match Rows::begin(connection, names).await {
            Ok(rows) => Ok(rows),
            Err(error) if is_busy(&error) => {
                // Usually the transaction has not begun, and there is nothing to roll back.
                let _ = sqlx::raw_sql("rollback").execute(self.connection().await?).await;
                Err(failed("begin a transaction", Applied::No, error))
            }
            Err(error) => {
                self.roll_back().await;
                Err(failed("begin a transaction", Applied::No, error))
            }
        }
    }

    /// Writes rows, and commits. It uses the connection of the transaction, even if the file has been replaced meanwhile.
    /// Then what it has committed does not count.
    async fn write(&mut self, locks: Vec<Value>, pools: Vec<Value>) -> Result<(), BackendError> {
        let open = self.open.as_mut().ok_or_else(replaced)?;
        let write = rows::write(&mut open.connection, locks, pools).await;
        write.map_err(|error| failed("commit a transaction", Applied::Unknown, error))?;
        if self.place.is_still(open) { Ok(()) } else { Err(replaced()) }
    }

    /// Ends the transaction without its changes. If that fails, the connection is closed, which does the same.
    async fn roll_back(&mut self) {
        if let Some(open) = &mut self.open
            && sqlx::raw_sql("rollback").execute(&mut open.connection).await.is_err()
        {
            self.open = None;
        }
    }

    /// Deletes expired rows. If that fails, the next sweep does it.
    async fn sweep(&mut self, now: UtcTime) {
        if let Some(open) = &mut self.open {
            // As many as were written meanwhile, so that the file does not grow.
            let rows = i64::try_from(std::mem::take(&mut self.written).max(SWEEP_ROWS)).unwrap_or(i64::MAX);
            let sweep = sqlx::query(SWEEP).bind(millis(now)).bind(rows).bind(micros(now));
            if let Err(error) = sweep.execute(&mut open.connection).await {
                tracing::debug!(%error, "failed to delete expired rows of the sqlite file");
            }
        }
    }

    /// Looks for releases by other processes. If a step fails, the next look repeats it.
    async fn look(&mut self) {
        if let Err(error) = self.report_releases().await {
            tracing::debug!(%error, "failed to look for releases in the sqlite file");
        }
        self.looked = Instant::now();
    }

    async fn report_releases(&mut self) -> Result<(), BackendError> {
        let version = sqlx::query_scalar("pragma data_version").fetch_one(self.connection().await?).await;
        let version = version.map_err(|error| failed("look for releases", Applied::No, error))?;
        if version == self.version {
            return Ok(());
        }
        let names: BTreeSet<_> = self.watchers.names().into_iter().collect();
        let freed = self.freed(&names).await?;
        (self.version, self.active) = (version, Instant::now());
        self.reported.retain(|name, _| names.contains(name));
        for (name, freed) in freed {
            let before = self.reported.insert(name.clone(), freed);
            if before.is_some_and(|before| before < freed) {
                self.watchers.released(&name);
            }
        }
        Ok(())
    }

    /// Returns the last releases of the names that have a row.
    async fn freed(&mut self, names: &BTreeSet<LockName>) -> Result<Vec<(LockName, i64)>, BackendError> {
        let read = sqlx::query_as::<_, (String, i64)>(FREED).bind(as_json(names));
        let rows = read.fetch_all(self.connection().await?).await;
        let rows = rows.map_err(|error| failed("look for releases", Applied::No, error))?;
        let freed: HashMap<_, _> = rows.into_iter().collect();
        let of = |name: &LockName| Some((name.clone(), *freed.get(name.as_str())?));
        Ok(names.iter().filter_map(of).collect())
    }

    /// Answers a request that changes no lock.
    async fn answer(&mut self, job: Job) {
        let place = self.place.clone();
        match job {
            Job::Lease(_) | Job::Force(..) => {}
            Job::Inspect(name, reply) => answer(reply, self.inspect(name).await),
            // Its caller has given up.
            Job::Transact { reply, .. } if reply.is_closed() => {}
            Job::Transact { group, access, step, reply } => {
                answer(reply, self.transact(&group, access, step).await);
            }
            Job::Watch(name, reply) => answer(reply, self.watch(name).await),
            Job::WriteCard { process, card, ttl, reply } => {
                let write = async {
                    directory::write_card(self.connection().await?, place.now(), process, card, ttl).await
                };
                answer(reply, write.await);
            }
            Job::RemoveCard(process, reply) => {
                let remove = async { directory::remove_card(self.connection().await?, process).await };
                answer(reply, remove.await);
            }
            Job::ReadCard(process, reply) => {
                let read =
                    async { directory::read_card(self.connection().await?, place.now(), process).await };
                answer(reply, read.await);
            }
            Job::List { prefix, limits, reply } => {
                let list =
                    async { directory::list(self.connection().await?, place.now(), prefix, limits).await };
                answer(reply, list.await);
            }
        }
    }

    async fn transact(&mut self, group: &GroupName, access: Access, step: Step) -> Result<(), BackendError> {
        let place = self.place.clone();
        let mut done = ledger::transact(self.connection().await?, &place, group, access, step).await;
        if done.is_err() {
            self.roll_back().await;
        } else if self.open.as_ref().is_none_or(|open| !place.is_still(open)) {
            done = Err(replaced());
        }
        if matches!(access, Access::Durable | Access::Renewal)
            && let Some(open) = &mut self.open
            && let Err(error) = open.relax(&place).await
        {
            tracing::debug!(%error, "failed to reset a setting of the sqlite file");
            self.open = None;
        }
        done
    }

    async fn inspect(&mut self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let read = Rows::read(self.connection().await?, BTreeSet::from([name.clone()])).await;
        let mut rows = read.map_err(|error| failed("read a lock", Applied::No, error))?;
        let record = rows.of(&name)?.clone();
        let now = self.place.now();
        Ok(Reply::new(now, record.inspect(now)))
    }

    async fn watch(&mut self, name: LockName) -> Result<(), BackendError> {
        let names = BTreeSet::from([name.clone()]);
        let freed = self.freed(&names).await?.first().map_or(0, |(_, freed)| *freed);
        // Another subscriber of the name may not have heard of the last release yet.
        if self.reported.insert(name.clone(), freed).is_some_and(|before| before < freed) {
            self.watchers.released(&name);
        }
        Ok(())
    }
}

fn replaced() -> BackendError {
    let message = "the sqlite file or its log was replaced during a transaction";
    BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message)
}

/// Sends an answer. Its caller may have given up.
fn answer<T>(reply: Ask<T>, result: Result<T, BackendError>) {
    let _ = reply.send(result);
}
