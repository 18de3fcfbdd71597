//! The operations on leases: their parameters, and what the answers mean.

use super::{
    error::{LOCK_NOT_AVAILABLE, failed, sqlstate},
    server::{Server, statement},
    statements::PATIENCE,
};
use crate::{
    columns::{self, duration, micros, millis, misunderstood, signed, token},
    connections::{in_time, run},
    renewals::{RenewsTogether, renew},
};
use async_trait::async_trait;
use lock_core::{
    LockName, Worker,
    backend::{
        AcquireMode, AcquireRequest, Acquired, AsyncBackend, BackendError, Capabilities, ForceReleaseRequest,
        ForceReleased, Inspected, NotifyWaiters, ReleaseRequest, Released, RenewRequest, Renewed, Reply,
        StoredHold,
    },
    clock::UtcTime,
};
use sqlx::{FromRow, postgres::PgRow};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

/// The number of releases after which expired rows are deleted.
const SWEEP_EVERY: u32 = 64;

/// The leases of a server, which are locks. Pools are not among them.
pub(super) struct Leases {
    pub(super) server: Arc<Server>,
    pub(super) keeper: Worker,
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").finish_non_exhaustive()
    }
}

#[async_trait]
impl AsyncBackend for Leases {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("postgres")
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        self.server.now()
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let server = self.server.clone();
        run(&self.keeper, async move { server.acquire(request).await }).await
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let (server, number) = (self.server.clone(), items.len());
        let renewed = run(&self.keeper, async move { Ok(renew(&*server, items).await) }).await;
        renewed.unwrap_or_else(|error| vec![Err(error); number])
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let server = self.server.clone();
        run(&self.keeper, async move { server.release(request).await }).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let server = self.server.clone();
        run(&self.keeper, async move { server.inspect(name).await }).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let server = self.server.clone();
        run(&self.keeper, async move { server.force_release(request).await }).await
    }
}

impl Server {
    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let (reserve, floor) = match request.mode {
            AcquireMode::New { reserve, floor } => (reserve, floor),
            AcquireMode::Reenter { depth } => return self.reenter(request, depth).await,
            AcquireMode::Permit(_) => return Err(BackendError::without_permits("a lock of postgres")),
        };
        let query = statement(&self.statements.acquire)
            .bind(request.name.as_str().to_owned())
            .bind(request.lease.to_string())
            .bind(millis(request.duration))
            .bind(signed(request.not_after.as_micros()))
            .bind(i32::try_from(reserve).unwrap_or(i32::MAX))
            .bind(floor.map(columns::floor))
            .bind(columns::retention(request.retention));
        let rows = match self.try_execute(&self.grants, query).await? {
            Ok(rows) => rows,
            // A transaction with a fence, or another request for the same lock.
            Err(error) if sqlstate(&error).as_deref() == Some(LOCK_NOT_AVAILABLE) => {
                // No time: an earlier attempt with this lease may be the one that has the row, so none is settled.
                let now = UtcTime::from_micros(0);
                return Ok(Reply::new(now, Acquired::Busy { remaining: Some(PATIENCE) }));
            }
            Err(error) => return Err(failed("acquire a lock", error)),
        };
        let (now, first, last, remaining): (i64, Option<i64>, Option<i64>, Option<i64>) = only(&rows)?;
        let now = micros(now);
        let acquired = match (first, last) {
            (Some(first), Some(last)) => Acquired::Granted { first: token(first), last: token(last) },
            _ if now > request.not_after => Acquired::Late,
            _ => Acquired::Busy { remaining: remaining.map(duration) },
        };
        Ok(Reply::new(now, acquired))
    }

    /// Raises the depth of a lease.
    async fn reenter(&self, request: AcquireRequest, depth: u32) -> Result<Reply<Acquired>, BackendError> {
        let AcquireRequest { name, lease, duration, not_after, .. } = request;
        let renewal = RenewRequest { name, lease, duration, not_after };
        let reply = self.renew_depth(renewal, depth).await?;
        Ok(reply.map(|renewed| match renewed {
            Renewed::Renewed => Acquired::Reentered,
            Renewed::Late => Acquired::Late,
            _ => Acquired::Gone,
        }))
    }

    /// Renews a lease, and sets its depth.
    async fn renew_depth(&self, item: RenewRequest, depth: u32) -> Result<Reply<Renewed>, BackendError> {
        let query = statement(&self.statements.renew_one)
            .bind(vec![item.name.as_str().to_owned()])
            .bind(vec![item.lease.to_string()])
            .bind(vec![millis(item.duration)])
            .bind(vec![signed(item.not_after.as_micros())])
            .bind(vec![i32::try_from(depth).unwrap_or(i32::MAX)]);
        let rows = self.execute(&self.upkeep, "renew a lock", query).await?;
        let row = rows.first().ok_or_else(misunderstood)?;
        match renewed(row)? {
            Some(reply) => Ok(reply),
            // A row that has appeared since the statement began is not that of a lease that was granted before.
            None => Ok(Reply::new(micros(decode::<(i64, String)>(row)?.0), Renewed::Gone)),
        }
    }

    async fn release(self: Arc<Self>, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let ReleaseRequest { name, lease, depth_left, notify } = request;
        let freed = self.free(&self.statements.release, &name, lease.to_string(), depth_left, notify);
        let Freed { now, had_it, held_by_other, watching, .. } = freed.await?;
        let released = match (had_it, depth_left) {
            (false, _) => Released::Gone { held_by_other },
            (true, 0) => Released::Released { listeners: Some(watching) },
            (true, _) => Released::Kept,
        };
        if self.releases.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            let server = self.clone();
            tokio::spawn(async move { server.sweep(&server.statements.sweep).await });
        }
        Ok(Reply::new(now, released))
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let ForceReleaseRequest { name, seen } = request;
        let freed = self.free(&self.statements.force_release, &name, seen, 0, NotifyWaiters::Yes).await?;
        let released = if freed.had_it { ForceReleased::Released } else { ForceReleased::HolderChanged };
        Ok(Reply::new(freed.now, released))
    }

    /// Lowers the depth of a lease or frees it, and wakes those who wait.
    async fn free(
        &self,
        text: &Arc<str>,
        name: &LockName,
        lease: String,
        depth: u32,
        notify: NotifyWaiters,
    ) -> Result<Freed, BackendError> {
        let query = || {
            statement(text)
                .bind(name.as_str().to_owned())
                .bind(lease.clone())
                .bind(i32::try_from(depth).unwrap_or(i32::MAX))
                .bind(notify != NotifyWaiters::No)
                .bind(self.id.clone())
        };
        let mut freed = Freed::of(&self.execute(&self.upkeep, "release a lock", query()).await?)?;
        if !freed.has_row {
            // A grant whose transaction is not committed yet has a row that no other one can see.
            let make = statement(&self.statements.make_row).bind(name.as_str().to_owned());
            self.execute(&self.upkeep, "release a lock", make).await?;
            freed = Freed::of(&self.execute(&self.upkeep, "release a lock", query()).await?)?;
        }
        let wakes = match notify {
            NotifyWaiters::No => false,
            // The reply to an earlier release may be lost.
            NotifyWaiters::EvenIfGone => freed.had_it || !freed.held_by_other,
            _ => freed.had_it,
        };
        if wakes && depth == 0 {
            self.has_reported(name, freed.releases);
            freed.watching += u32::from(self.watchers.released(name) > 0);
        }
        Ok(freed)
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let query = statement(&self.statements.inspect).bind(name.as_str().to_owned());
        let rows = self.execute(&self.upkeep, "read a lock", query).await?;
        let (now, lease, depth, expires): (i64, Option<String>, Option<i32>, Option<i64>) = only(&rows)?;
        let now = micros(now);
        let inspected = match lease {
            None => Inspected::Free,
            Some(lease) => Inspected::Held(StoredHold {
                lease,
                depth: depth.and_then(|depth| u32::try_from(depth).ok()).unwrap_or(0),
                remaining: expires.map(|expires| duration(expires - signed(now.as_millis()))),
            }),
        };
        Ok(Reply::new(now, inspected))
    }

    /// Deletes expired rows. If that fails, the next sweep does it.
    pub(super) async fn sweep(&self, text: &Arc<str>) {
        let sweep = self.execute(&self.upkeep, "delete expired rows", statement(text));
        if let Err(error) = in_time(sweep).await {
            tracing::debug!(%error, "failed to delete expired rows of postgres");
        }
    }
}

impl RenewsTogether for Server {
    async fn renew_together(
        &self,
        batch: Vec<RenewRequest>,
    ) -> Result<Vec<Option<Reply<Renewed>>>, BackendError> {
        let (number, items) = (batch.len(), batch.iter());
        let query = statement(&self.statements.renew)
            .bind(items.clone().map(|item| item.name.as_str().to_owned()).collect::<Vec<_>>())
            .bind(items.clone().map(|item| item.lease.to_string()).collect::<Vec<_>>())
            .bind(items.clone().map(|item| millis(item.duration)).collect::<Vec<_>>())
            .bind(items.map(|item| signed(item.not_after.as_micros())).collect::<Vec<_>>())
            .bind(vec![None::<i32>; number]);
        let rows = self.execute(&self.renewals, "renew locks", query).await?;
        if rows.len() != number {
            return Err(misunderstood());
        }
        rows.iter().map(renewed).collect()
    }
}

/// The answer to a release.
struct Freed {
    now: UtcTime,
    has_row: bool,
    had_it: bool,
    held_by_other: bool,
    /// The number of clients that wait.
    watching: u32,
    releases: i64,
}

impl Freed {
    fn of(rows: &[PgRow]) -> Result<Self, BackendError> {
        type Row = (i64, bool, bool, bool, i64, Option<i64>);
        let (now, has_row, had_it, held_by_other, watching, releases): Row = only(rows)?;
        let watching = u32::try_from(watching).unwrap_or(u32::MAX);
        Ok(Self {
            now: micros(now),
            has_row,
            had_it,
            held_by_other,
            watching,
            releases: releases.unwrap_or(0),
        })
    }
}

/// Reads the answer to a renewal; `None` if it was skipped.
fn renewed(row: &PgRow) -> Result<Option<Reply<Renewed>>, BackendError> {
    let (now, answer): (i64, String) = decode(row)?;
    let renewed = match answer.as_str() {
        "renewed" => Renewed::Renewed,
        "late" => Renewed::Late,
        "gone" => Renewed::Gone,
        _ => return Ok(None),
    };
    Ok(Some(Reply::new(micros(now), renewed)))
}

pub(super) fn only<T: for<'r> FromRow<'r, PgRow>>(rows: &[PgRow]) -> Result<T, BackendError> {
    decode(rows.first().ok_or_else(misunderstood)?)
}

pub(super) fn decode<T: for<'r> FromRow<'r, PgRow>>(row: &PgRow) -> Result<T, BackendError> {
    T::from_row(row).map_err(|error| misunderstood().with_source(error))
}
