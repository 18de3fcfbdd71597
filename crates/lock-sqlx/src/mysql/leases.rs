//! The operations on leases: their parameters, and what the answers mean.

use super::{
    server::{Server, decode, only},
    statements::{ACQUIRE, EXPIRED, INSPECT, RELEASE, RENEW, SWEEP, Value, statement},
};
use crate::{
    columns::{self, duration, micros, millis, misunderstood, signed, token},
    connections::in_time,
    renewals::RenewsTogether,
};
use lock_core::{
    LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, BackendError, ForceReleaseRequest, ForceReleased, Inspected,
        ReleaseRequest, Released, RenewRequest, Renewed, Reply, StoredHold,
    },
    clock::UtcTime,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// The time after which a lock is tried again whose fence a transaction has.
const FENCED_FOR: Duration = Duration::from_millis(250);

/// The number of releases after which expired rows are deleted.
const SWEEP_EVERY: u32 = 64;

impl Server {
    pub(super) async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let (reserve, floor) = match request.mode {
            AcquireMode::New { reserve, floor } => (reserve, floor),
            AcquireMode::Reenter { depth } => return self.reenter(request, depth).await,
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
        let rows = self.execute(&self.grants, "acquire a lock", ACQUIRE, &values).await?;
        type Row = (i64, Option<i64>, Option<i64>, Option<i64>, i64);
        let (now, first, last, remaining, is_fenced): Row = only(&rows)?;
        let now = micros(now);
        let acquired = match (first, last) {
            (Some(first), Some(last)) => Acquired::Granted { first: token(first), last: token(last) },
            _ if now > request.not_after => Acquired::Late,
            _ if is_fenced != 0 => Acquired::Busy { remaining: Some(FENCED_FOR) },
            _ => Acquired::Busy { remaining: remaining.map(duration) },
        };
        Ok(Reply::new(now, acquired))
    }

    /// Raises the depth of a lease.
    async fn reenter(&self, request: AcquireRequest, depth: u32) -> Result<Reply<Acquired>, BackendError> {
        let AcquireRequest { name, lease, duration, not_after, .. } = request;
        let renewal = RenewRequest { name, lease, duration, not_after };
        let text = format!("start transaction;{}commit;", renewal_of(&renewal, Some(i64::from(depth)), ""));
        let rows = self.send(&self.upkeep, "enter a lock again", text).await?;
        let (now, renews, _): (i64, i64, i64) = only(&rows)?;
        Ok(renewed(now, renews, not_after).map(|renewed| match renewed {
            Renewed::Renewed => Acquired::Reentered,
            Renewed::Late => Acquired::Late,
            _ => Acquired::Gone,
        }))
    }

    pub(super) async fn release(
        self: Arc<Self>,
        request: ReleaseRequest,
    ) -> Result<Reply<Released>, BackendError> {
        let ReleaseRequest { name, lease, depth_left, .. } = request;
        let (now, had_it, held_by_other) = self.free(&name, &lease.to_string(), depth_left).await?;
        let released = match (had_it, depth_left) {
            (false, _) => Released::Gone { held_by_other },
            (true, 0) => Released::Released { listeners: None },
            (true, _) => Released::Kept,
        };
        if self.releases.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            let server = self.clone();
            tokio::spawn(async move {
                if let Err(error) = in_time(server.sweep()).await {
                    tracing::debug!(%error, "failed to delete expired rows of mysql");
                }
            });
        }
        Ok(Reply::new(now, released))
    }

    pub(super) async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let (now, had_it, _) = self.free(&request.name, &request.seen, 0).await?;
        Ok(Reply::new(now, if had_it { ForceReleased::Released } else { ForceReleased::HolderChanged }))
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
        let rows = self.execute(&self.upkeep, "release a lock", RELEASE, &values).await?;
        let (now, had_it, held_by_other): (i64, i64, i64) = only(&rows)?;
        Ok((micros(now), had_it != 0, held_by_other != 0))
    }

    pub(super) async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
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

    /// Deletes expired rows. If that fails, the next sweep does it.
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
        let renewals: String = batch.iter().map(|item| renewal_of(item, None, " skip locked")).collect();
        let text = format!("start transaction;{renewals}commit;");
        let rows = self.send(&self.renewals, "renew locks", text).await?;
        if rows.len() != batch.len() {
            return Err(misunderstood());
        }
        let answers = batch.iter().zip(&rows).map(|(item, row)| {
            let (now, renews, is_skipped): (i64, i64, i64) = decode(row)?;
            Ok((is_skipped == 0).then(|| renewed(now, renews, item.not_after)))
        });
        answers.collect()
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
