//! The requests of locks: each is one transaction of etcd.

use crate::{
    client::Named as _,
    error::{has_no_lease, misunderstood},
    server::{Server, Session},
    wakes::Wakes,
    wire::{RangeRequest, Request, Target, TxnResponse, delete, get, is, put},
};
use async_trait::async_trait;
use lock_core::{
    __private::lock,
    FencingToken, LockName,
    backend::{AcquireMode, AcquireRequest, BackendError, LeaseId, ProcessId},
};
use lock_session::{OwnLock, SessionStore, Stored, Take, lost_meanwhile};
use std::time::Duration;

/// The tokens of a revision. Its first one is the revision times their number, plus the offset of the store.
const TOKENS: i64 = 512;

/// The reads of a transaction; etcd refuses more than 128 operations.
const READS: usize = 100;

/// A grant: the revision of the lock's key, and the session that has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grant {
    pub(crate) revision: i64,
    pub(crate) session: i64,
}

#[async_trait]
impl SessionStore for Server {
    type Detail = u64;
    type Grant = Grant;
    type Wakes = Wakes;

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    fn name(&self) -> &'static str {
        "etcd"
    }

    fn max_lease(&self) -> Duration {
        self.place.session
    }

    async fn begin(&self) -> Result<Session, BackendError> {
        self.begin_session().await
    }

    async fn mark(&self, session: &Session) -> Result<Option<i64>, BackendError> {
        let marker = vec![put(&self.marker_key(session.id), "", session.id)];
        match self.transact(vec![], marker, vec![]).await {
            Err(status) if has_no_lease(&status) => Ok(None),
            marked => Ok(Some(marked.named("write the marker of the session")?.revision())),
        }
    }

    fn replaced(&self, old: &Session) {
        tracing::info!("etcd has a new leader: the locks are moved to a new session");
        lock(&self.replaced).push(old.id);
    }

    async fn take(&self, session: &Session, request: &AcquireRequest) -> Result<Take<Grant>, BackendError> {
        let (taken, renewed) =
            tokio::join!(self.take_once(session, request), self.ensure_session(session.id, request.duration));
        let (taken, offset) = match taken? {
            Ok(taken) => taken,
            Err(refused) => return Ok(refused),
        };
        // The session lasts as long as the lease only if it was renewed under the same leader.
        if renewed? != Some(taken.term()) && self.renew_session(session.id).await? != Some(taken.term()) {
            return Err(lost_meanwhile("etcd"));
        }
        if !self.began_in(session, taken.term()) {
            return Ok(Take::Replace);
        }
        let reserve = match request.mode {
            AcquireMode::New { reserve, .. } => i64::from(reserve),
            AcquireMode::Reenter { .. } | AcquireMode::Permit(_) => 0,
        };
        let grant = Grant { revision: taken.revision(), session: session.id };
        let first = grant.revision * TOKENS + offset;
        Ok(Take::Taken { grant, first: token(first), last: token(first + reserve.min(TOKENS - 1)) })
    }

    async fn raise_tokens(&self, floor: FencingToken) -> Result<(), BackendError> {
        let key = self.offset_key();
        loop {
            let read = self.get(&key).await?;
            let (offset, changed) = match read.kv(0) {
                Some(kv) => (number(&kv.value).ok_or_else(misunderstood)?, kv.mod_revision),
                None => (0, 0),
            };
            let next = (read.revision() + 1) * TOKENS;
            if next + offset > floor.as_i64() {
                return Ok(());
            }
            let raised = vec![put(&key, (floor.as_i64() + 1 - next).to_string(), 0)];
            let unchanged = vec![is(&key, Target::Changed(changed))];
            self.transact(unchanged, raised, vec![]).await.named("raise the offset of tokens")?;
        }
    }

    async fn read(&self, name: &LockName) -> Result<Option<Stored<Grant>>, BackendError> {
        let keys = self.keys(name);
        let reads = vec![get(&keys.lock), get(&keys.depth)];
        let read = self.transact(vec![], reads, vec![]).await.named("read a lock")?;
        Ok(read.kv(0).map(|kv| Stored {
            lease: String::from_utf8_lossy(&kv.value).into_owned(),
            depth: read.kv(1).and_then(|kv| number(&kv.value)?.try_into().ok()).unwrap_or(1),
            grant: Grant { revision: kv.mod_revision, session: kv.lease },
        }))
    }

    async fn delete(&self, name: &LockName, grant: Grant) -> Result<bool, BackendError> {
        let keys = self.keys(name);
        let granted = vec![is(&keys.lock, Target::Changed(grant.revision))];
        let deleted = vec![delete(&keys.lock), delete(&keys.depth)];
        let deleted = self.transact(granted, deleted, vec![]).await.named("release a lock")?;
        Ok(deleted.succeeded)
    }

    async fn set_depth(
        &self,
        session: &Session,
        lock: &OwnLock<Grant>,
        depth: u32,
    ) -> Result<bool, BackendError> {
        if lock.grant.session != session.id {
            return Err(self.is_moving());
        }
        let keys = self.keys(&lock.name);
        let granted = vec![is(&keys.lock, Target::Changed(lock.grant.revision))];
        let deeper = vec![put(&keys.depth, depth.to_string(), session.id)];
        let (changed, renewed) =
            tokio::join!(self.transact(granted, deeper, vec![]), self.renew_session(session.id));
        let changed = match changed {
            Err(status) if has_no_lease(&status) => return Ok(false),
            other => other.named("change the depth of a lock")?,
        };
        if changed.succeeded && (renewed? != Some(changed.term()) || !self.began_in(session, changed.term()))
        {
            return Err(lost_meanwhile("etcd"));
        }
        Ok(changed.succeeded)
    }

    async fn renew(
        &self,
        session: &Session,
        locks: &[OwnLock<Grant>],
    ) -> Result<Option<Vec<bool>>, BackendError> {
        let mut there = Vec::with_capacity(locks.len());
        for locks in locks.chunks(READS) {
            let reads = locks.iter().map(|lock| get(&self.keys(&lock.name).lock)).collect();
            let (read, renewed) =
                tokio::join!(self.transact(vec![], reads, vec![]), self.renew_session(session.id));
            let (read, Some(term)) = (read.named("renew locks")?, renewed?) else { return Ok(None) };
            if term != read.term() || !self.began_in(session, term) {
                return Err(lost_meanwhile("etcd"));
            }
            for (place, lock) in locks.iter().enumerate() {
                let own = read.kv(place).filter(|kv| kv.value == value(lock.lease));
                if own.is_some_and(|kv| kv.lease != session.id) {
                    return Err(self.is_moving());
                }
                there.push(own.is_some());
            }
        }
        Ok(Some(there))
    }

    async fn write_card(
        &self,
        session: &Session,
        process: ProcessId,
        card: String,
    ) -> Result<(), BackendError> {
        let written = vec![put(&self.card_key(process), card, session.id)];
        self.transact(vec![], written, vec![]).await.named("write a card").map(drop)
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        let removed = vec![delete(&self.card_key(process))];
        self.transact(vec![], removed, vec![]).await.named("remove a card").map(drop)
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<Vec<u8>>, BackendError> {
        Ok(self.get(&self.card_key(process)).await?.kv(0).map(|kv| kv.value.clone()))
    }

    async fn names(&self, prefix: &str, limit: usize) -> Result<Vec<String>, BackendError> {
        let begin = self.keys_of("lock").into_bytes();
        let key = [&begin, prefix.as_bytes()].concat();
        let range = RangeRequest {
            range_end: after(&key),
            key,
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            keys_only: true,
        };
        let read = self.transact(vec![], vec![Request::Range(range).into()], vec![]).await;
        let read = read.named("list locks")?;
        let names = read.kvs(0).iter().filter_map(|kv| kv.key.strip_prefix(&begin[..]));
        Ok(names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect())
    }
}

impl Server {
    /// Takes a free lock, or one that the lease has. Returns the answer and the offset of tokens, or why it did not.
    async fn take_once(
        &self,
        session: &Session,
        request: &AcquireRequest,
    ) -> Result<Result<(TxnResponse, i64), Take<Grant>>, BackendError> {
        let (keys, offset) = (self.keys(&request.name), self.offset_key());
        let marker_key = self.marker_key(session.id);
        let marker = is(&marker_key, Target::Changed(session.marker));
        let own = is(&keys.lock, Target::Value(value(request.lease)));
        for condition in [is(&keys.lock, Target::Created(0)), own] {
            let taken = vec![put(&keys.lock, value(request.lease), session.id), get(&offset)];
            let seen = vec![get(&keys.lock), get(&marker_key)];
            let answer = match self.transact(vec![condition, marker.clone()], taken, seen).await {
                Err(status) if has_no_lease(&status) => return Ok(Err(Take::Outdated(None))),
                other => other.named("acquire a lock")?,
            };
            if answer.succeeded {
                let offset = answer.kv(1).map_or(Some(0), |kv| number(&kv.value));
                return Ok(Ok((answer, offset.ok_or_else(misunderstood)?)));
            }
            let marker = answer.kv(1).map(|kv| kv.mod_revision);
            match answer.kv(0) {
                Some(kv) if kv.value == value(request.lease) => {}
                Some(_) if marker == Some(session.marker) => return Ok(Err(Take::Busy)),
                _ => return Ok(Err(Take::Outdated(marker))),
            }
        }
        // It was its own, and is not any more.
        Ok(Err(Take::Outdated(Some(session.marker))))
    }

    /// The lock is in another session, and is to be moved to this one.
    fn is_moving(&self) -> BackendError {
        self.follows.notify_one();
        lost_meanwhile("etcd")
    }
}

/// Returns the end of the range of keys that begin with these bytes, which are UTF-8.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        // No byte of UTF-8 is 0xff.
        *last += 1;
    }
    end
}

fn value(lease: LeaseId) -> Vec<u8> {
    lease.to_string().into_bytes()
}

fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn token(number: i64) -> FencingToken {
    FencingToken::new(u64::try_from(number).unwrap_or(0))
}
