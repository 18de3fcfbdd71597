//! The operations on pools. They are judged here, at the time of the server, and a version guards what is written.
//!
//! An operation reads the row, applies the rules of lock-core, and writes the row if its version is still the same. So
//! clients share no transaction, and one that is suspended in between delays nobody. Two writes that come late need more:
//!
//! - **A write comes too late for its request.** It may be on its way, unanswered, while its caller gives up, releases the
//!   lease until no request for it can be executed any more, and finds nothing each time. The row did not change
//!   meanwhile, so its version would let the write pass, and nobody would ever release that permit. Therefore a write
//!   compares `not_after` with the clock, once it has the row.
//! - **A write has the row, and is not committed.** A release that reads beside it finds nothing. Therefore a release that
//!   finds nothing also writes the row: it waits for the other one, and then one of the two versions is outdated.
//!
//! A version is the time of its write, or more. So the row of a pool that was deleted and written again has no version
//! that a late write could have read.

use super::{
    error::{LOCK_NOT_AVAILABLE, failed, sqlstate},
    leases::only,
    server::{Server, statement},
};
use crate::{
    columns::{micros, signed},
    pools::PoolRow,
};
use lock_core::{
    __private::{Random, lock},
    LockName, Worker,
    backend::{
        Acquired, Applied, BackendError, BackendErrorKind, ForceReleaseRequest, ForceReleased, Inspected,
        Outcome, Released, Renewed, Reply, Submission,
    },
    clock::UtcTime,
};
use std::{
    collections::{VecDeque, hash_map::Entry},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::sleep;

/// The maximum number of operations that share a read and a write.
const MAX_BATCH: usize = 32;

/// The number of attempts while other clients change the row, and the limit of the random pause before the third one, which
/// grows with each. There is none before the second: the write has waited for that of another client to end.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(1);

/// The number of writes after which expired rows are deleted.
const SWEEP_EVERY: u32 = 64;

/// The row of a pool as it was read.
struct Read {
    now: UtcTime,
    /// `None` if there is no row.
    version: Option<i64>,
    row: PoolRow,
}

/// A reply, and what it depends on.
struct Judged<R> {
    reply: R,
    /// The time after which the row must not be written.
    not_after: Option<UtcTime>,
    /// The reply is a promise, so the disk must have it.
    is_durable: bool,
    /// The row must be written even if it is the same.
    is_fence: bool,
}

impl Server {
    /// Executes an operation after those on the same pool that were submitted before.
    pub(super) fn submit_to_pool(self: &Arc<Self>, keeper: &Worker, submission: Submission) {
        let name = submission.operation().name().clone();
        match lock(&self.pool_queues).entry(name.clone()) {
            Entry::Occupied(mut queue) => return queue.get_mut().push_back(submission),
            Entry::Vacant(queue) => queue.insert(VecDeque::from([submission])),
        };
        let turns = Turns { server: self.clone(), name, are_over: false };
        keeper.handle().spawn(turns.serve());
    }

    pub(super) async fn inspect_pool(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let Read { now, row, .. } = self.read_pool(&name).await?;
        Ok(Reply::new(now, row.inspect(now)))
    }

    pub(super) async fn force_release_of_pool(
        self: Arc<Self>,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let rule = |now, row: &mut PoolRow| {
            let reply = row.force_release(now, &request);
            Judged { reply, not_after: None, is_durable: true, is_fence: false }
        };
        self.change_pool(&request.name, rule).await
    }

    /// Executes operations on a pool together, and answers each.
    async fn serve_pool(self: &Arc<Self>, name: &LockName, batch: Vec<Submission>) {
        let changed = self.change_pool(name, |now, row: &mut PoolRow| judge(&batch, now, row));
        let all_unwanted = async {
            for submission in &batch {
                submission.unwanted().await;
            }
        };
        // A statement that is given up closes its connection, which may have lost the server.
        let changed = tokio::select! {
            biased;
            changed = changed => changed,
            () = all_unwanted => return,
        };
        match changed {
            Ok(Reply { now, outcome, .. }) => {
                for (submission, outcome) in batch.into_iter().zip(outcome) {
                    submission.complete(Ok(Reply::new(now, outcome)));
                }
            }
            Err(error) => batch.into_iter().for_each(|submission| submission.complete(Err(error.clone()))),
        }
    }

    /// Applies a rule to the row of a pool, again each time that another client was faster.
    async fn change_pool<R>(
        self: &Arc<Self>,
        name: &LockName,
        rule: impl Fn(UtcTime, &mut PoolRow) -> Judged<R>,
    ) -> Result<Reply<R>, BackendError> {
        for attempt in 0..ATTEMPTS {
            if attempt > 1 {
                let limit = PAUSE.saturating_mul(attempt - 1);
                sleep(Duration::from_nanos(Random::System.jitter() % nanos(limit))).await;
            }
            let before = self.read_pool(name).await?;
            let (now, mut row) = (before.now, before.row.clone());
            let judged = rule(now, &mut row);
            if row == before.row && !judged.is_fence {
                return Ok(Reply::new(now, judged.reply));
            }
            if !self.write_pool(name, &before, &row, &judged).await? {
                continue;
            }
            if row.freed() != before.row.freed() {
                self.has_reported(name, row.freed());
                self.watchers.released(name);
            }
            if self.pool_writes.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
                let server = self.clone();
                tokio::spawn(async move { server.sweep(&server.statements.sweep_pools).await });
            }
            return Ok(Reply::new(now, judged.reply));
        }
        let message = "other clients change the pool all the time: use several pools, or fewer clients";
        Err(BackendError::new(BackendErrorKind::Unavailable, Applied::No, message))
    }

    async fn read_pool(&self, name: &LockName) -> Result<Read, BackendError> {
        let query = statement(&self.statements.read_pool).bind(name.as_str().to_owned());
        let rows = self.execute(&self.pools, "read a pool", query).await;
        let rows = rows.map_err(|error| error.with_applied(Applied::No))?;
        type Columns = (i64, Option<String>, Option<i64>, Option<i64>);
        let (now, state, version, freed): Columns = only(&rows)?;
        let row = match state {
            Some(state) => PoolRow::read(name.as_str(), &state, freed.unwrap_or(0))?,
            None => PoolRow::default(),
        };
        Ok(Read { now: micros(now), version, row })
    }

    /// Writes the row of a pool, and notifies the clients that wait. Returns `false` if nothing was written, because the row
    /// has another version, another transaction keeps it, or `not_after` has passed.
    async fn write_pool<R>(
        &self,
        name: &LockName,
        before: &Read,
        row: &PoolRow,
        judged: &Judged<R>,
    ) -> Result<bool, BackendError> {
        let version = signed(before.now.as_micros());
        let query = statement(&self.statements.write_pool)
            .bind(name.as_str().to_owned())
            .bind(before.version)
            .bind(row.state())
            .bind(before.version.map_or(version, |read| version.max(read.saturating_add(1))))
            .bind(row.freed())
            .bind(row.expires_ms(before.now))
            .bind(judged.not_after.map_or(i64::MAX, |time| signed(time.as_micros())))
            .bind(row.freed() != before.row.freed())
            .bind(self.id.clone())
            .bind(judged.is_durable);
        match self.try_execute(&self.pools, query).await? {
            Ok(rows) => only::<(i64, bool, i64, i64)>(&rows).map(|(_, is_written, ..)| is_written),
            Err(error) if sqlstate(&error).as_deref() == Some(LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => Err(failed("change a pool", error)),
        }
    }
}

/// Applies operations in their order.
fn judge(batch: &[Submission], now: UtcTime, row: &mut PoolRow) -> Judged<Vec<Outcome>> {
    let mut judged = Judged {
        reply: Vec::with_capacity(batch.len()),
        not_after: None,
        is_durable: false,
        is_fence: false,
    };
    for submission in batch {
        let outcome = row.apply(now, submission.operation());
        let is_late = matches!(outcome, Outcome::Acquired(Acquired::Late) | Outcome::Renewed(Renewed::Late));
        let not_after = submission.operation().not_after().filter(|_| !is_late);
        judged.not_after = judged.not_after.into_iter().chain(not_after).min();
        judged.is_durable |= matches!(
            outcome,
            Outcome::Acquired(Acquired::Granted { .. })
                | Outcome::Renewed(Renewed::Renewed)
                | Outcome::Released(Released::Kept)
        );
        judged.is_fence |= matches!(outcome, Outcome::Released(Released::Gone { .. }));
        judged.reply.push(outcome);
    }
    judged
}

/// The task that serves a pool, until nothing waits. If it ends before, with its runtime or by a panic, the operations that
/// wait have an unknown outcome: otherwise no task would ever serve them.
struct Turns {
    server: Arc<Server>,
    name: LockName,
    are_over: bool,
}

impl Turns {
    async fn serve(mut self) {
        while let Some(mut batch) = self.next() {
            // The callers of the others have given up.
            batch.retain(Submission::is_wanted);
            if !batch.is_empty() {
                self.server.serve_pool(&self.name, batch).await;
            }
        }
    }

    fn next(&mut self) -> Option<Vec<Submission>> {
        let mut queues = lock(&self.server.pool_queues);
        let queue = queues.get_mut(&self.name).filter(|queue| !queue.is_empty());
        let batch = queue.map(|queue| queue.drain(..queue.len().min(MAX_BATCH)).collect());
        if batch.is_none() {
            queues.remove(&self.name);
            self.are_over = true;
        }
        batch
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        if !self.are_over {
            let never_served = lock(&self.server.pool_queues).remove(&self.name);
            drop(never_served);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).max(1)
}
