//! The operations on leases: their parameters, and what the answers mean.

use super::{
    server::{Server, decode, only},
    statements::{ACQUIRE, EXPIRED, INSPECT, RELEASE, RENEW, SWEEP, Value, statement},
};
use crate::{
    columns::{self, duration, micros, millis, misunderstood, signed, token},
    connections::in_time,
    renewals::{self, RenewsTogether},
};
use async_trait::async_trait;
use lock_core::{
    LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, AsyncBackend, BackendError, BackendErrorKind,
        Capabilities, ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest,
        Renewed, Reply, StoredHold,
    },
    clock::UtcTime,
};
use std::{sync::atomic::Ordering, time::Duration};

/// The time after which a lock is tried again whose fence a transaction has.
const FENCED_FOR: Duration = Duration::from_millis(250);

/// The attempts to lock a row that was made before, which a sweep has deleted meanwhile.
const ATTEMPTS: u32 = 5;

/// The renewals in one request, which is far below the shortest `max_allowed_packet` in use.
const RENEWALS: usize = 100;

/// The number of releases after which expired rows are deleted.
const SWEEP_EVERY: u32 = 64;

#[async_trait]
impl AsyncBackend for Server {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("mysql")
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        self.now()
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let (reserve, floor) = match request.mode {
            AcquireMode::New { reserve, floor } => (reserve, floor),
            AcquireMode::Reenter { depth } => return self.reenter(request, depth).await,
            AcquireMode::Permit(_) => return Err(BackendError::without_permits("MariaDB")),
        };
        let values = [
            ("name", Value::Text(request.name.as_str())),
            ("lease", Value::Text(&request.lease.to_string())),
            ("millis", Value::Number(millis(request.duration))),
            ("not_after", Value::Number(signed(request.not_after.as_micros()))),
            ("reserve", Value::Number(i64::from(reserve))),
            ("floor", floor.map(columns::floor).into()),
            ("retention", columns::retention(request.retention).into()),
        ];
        for _ in 0..ATTEMPTS {
            let rows = self.execute(&self.grants, "acquire a lock", ACQUIRE, &values).await?;
            type Row = (i64, Option<i64>, Option<i64>, Option<i64>, i64, i64, i64);
            let (now, first, last, remaining, is_fenced, is_found, is_read_only): Row = only(&rows)?;
            let now = micros(now);
            let acquired = match (first, last) {
                (Some(first), Some(last)) => Acquired::Granted { first: token(first), last: token(last) },
                _ if now > request.not_after => Acquired::Late,
                _ if is_read_only != 0 => return Err(read_only()),
                _ if is_found == 0 => continue,
                _ if is_fenced != 0 => {
                    // No time: an earlier attempt with this lease may have the lock, so none is settled.
                    let busy = Acquired::Busy { remaining: Some(FENCED_FOR) };
                    return Ok(Reply::new(UtcTime::from_micros(0), busy));
                }
                _ => Acquired::Busy { remaining: remaining.map(duration) },
            };
            return Ok(Reply::new(now, acquired));
        }
        Err(swept())
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        renewals::renew(self, items).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let ReleaseRequest { name, lease, depth_left, .. } = request;
        let (now, had_it, held_by_other) = self.free(&name, &lease.to_string(), depth_left).await?;
        let released = match (had_it, depth_left) {
            (false, _) => Released::Gone { held_by_other },
            (true, 0) => Released::Released { listeners: None },
            (true, _) => Released::Kept,
        };
        if self.releases.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            self.sweeps.notify_one();
        }
        Ok(Reply::new(now, released))
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let (now, had_it, _) = self.free(&request.name, &request.seen, 0).await?;
        Ok(Reply::new(now, if had_it { ForceReleased::Released } else { ForceReleased::HolderChanged }))
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let values = [("name", Value::Text(name.as_str()))];
        let rows = self.execute(&self.upkeep, "read a lock", INSPECT, &values).await?;
        let (now, lease, depth, expires): (i64, Option<Vec<u8>>, Option<i64>, Option<i64>) = only(&rows)?;
        let now = micros(now);
        let inspected = match lease {
            None => Inspected::Free,
            Some(lease) => Inspected::Held(StoredHold {
                lease: String::from_utf8_lossy(&lease).into_owned(),
                depth: depth.and_then(|depth| u32::try_from(depth).ok()).unwrap_or(0),
                remaining: expires.map(|expires| duration(expires - signed(now.as_millis()))),
            }),
        };
        Ok(Reply::new(now, inspected))
    }
}

impl Server {
    /// Raises the depth of a lease.
    async fn reenter(&self, request: AcquireRequest, depth: u32) -> Result<Reply<Acquired>, BackendError> {
        let AcquireRequest { name, lease, duration, not_after, .. } = request;
        let renewal = RenewRequest { name, lease, duration, not_after };
        let text = format!("start transaction;{}commit;", renewal_of(&renewal, Some(i64::from(depth)), ""));
        let rows = self.send(&self.upkeep, "enter a lock again", text).await?;
        let (now, renews, _, is_read_only): (i64, i64, i64, i64) = only(&rows)?;
        if is_read_only != 0 {
            return Err(read_only());
        }
        Ok(renewed(now, renews, not_after).map(|renewed| match renewed {
            Renewed::Renewed => Acquired::Reentered,
            Renewed::Late => Acquired::Late,
            _ => Acquired::Gone,
        }))
    }

    /// Lowers the depth of a lease or frees it. Returns whether the lease had it, and whether another one has it.
    async fn free(
        &self,
        name: &LockName,
        lease: &str,
        depth: u32,
    ) -> Result<(UtcTime, bool, bool), BackendError> {
        let values = [
            ("name", Value::Text(name.as_str())),
            ("lease", Value::Text(lease)),
            ("depth", Value::Number(i64::from(depth))),
        ];
        for _ in 0..ATTEMPTS {
            let rows = self.execute(&self.upkeep, "release a lock", RELEASE, &values).await?;
            let (now, had_it, held_by_other, is_found): (i64, i64, i64, i64) = only(&rows)?;
            // Without a locked row, a grant may be under way.
            if is_found != 0 {
                return Ok((micros(now), had_it != 0, held_by_other != 0));
            }
        }
        Err(swept())
    }

    /// Deletes expired rows from time to time, for ever. If that fails, the next sweep does it.
    pub(super) async fn sweep_when_due(&self) {
        loop {
            self.sweeps.notified().await;
            if let Err(error) = in_time(self.sweep()).await {
                tracing::debug!(%error, "failed to delete expired rows of mysql");
            }
        }
    }

    async fn sweep(&self) -> Result<(), BackendError> {
        for row in self.execute(&self.upkeep, "find expired rows", EXPIRED, &[]).await? {
            let (name,): (Vec<u8>,) = decode(&row)?;
            let name = String::from_utf8_lossy(&name);
            let values = [("name", Value::Text(&name))];
            self.execute(&self.upkeep, "delete an expired row", SWEEP, &values).await?;
        }
        Ok(())
    }
}

impl RenewsTogether for Server {
    async fn renew_together(
        &self,
        batch: Vec<RenewRequest>,
    ) -> Result<Vec<Option<Reply<Renewed>>>, BackendError> {
        let mut answers = Vec::with_capacity(batch.len());
        for batch in batch.chunks(RENEWALS) {
            let renewals: String = batch.iter().map(|item| renewal_of(item, None, " skip locked")).collect();
            let text = format!("start transaction;{renewals}commit;");
            let rows = self.send(&self.renewals, "renew locks", text).await?;
            if rows.len() != batch.len() {
                return Err(misunderstood());
            }
            for (item, row) in batch.iter().zip(&rows) {
                let (now, renews, is_skipped, is_read_only): (i64, i64, i64, i64) = decode(row)?;
                if is_read_only != 0 {
                    return Err(read_only());
                }
                answers.push((is_skipped == 0).then(|| renewed(now, renews, item.not_after)));
            }
        }
        Ok(answers)
    }
}

fn renewal_of(item: &RenewRequest, depth: Option<i64>, waits: &str) -> String {
    let values = [
        ("name", Value::Text(item.name.as_str())),
        ("lease", Value::Text(&item.lease.to_string())),
        ("millis", Value::Number(millis(item.duration))),
        ("not_after", Value::Number(signed(item.not_after.as_micros()))),
        ("depth", depth.into()),
    ];
    statement(&RENEW.replace("{waits}", waits), &values)
}

/// Reads the answer to a renewal.
fn renewed(now: i64, renews: i64, not_after: UtcTime) -> Reply<Renewed> {
    let now = micros(now);
    let renewed = match renews {
        0 if now > not_after => Renewed::Late,
        0 => Renewed::Gone,
        _ => Renewed::Renewed,
    };
    Reply::new(now, renewed)
}

/// A user with enough rights could write all the same, but locks would then be granted here and on the new primary.
fn read_only() -> BackendError {
    let message = "the server is read-only, such as a former primary: connect to the primary";
    BackendError::new(BackendErrorKind::Unavailable, Applied::No, message)
}

fn swept() -> BackendError {
    let message = "the row of the lock was deleted again and again: set a longer retention";
    BackendError::new(BackendErrorKind::Unavailable, Applied::No, message)
}
