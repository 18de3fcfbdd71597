//! The operations on leases.

use crate::{
    client::Named as _,
    ends::End,
    error::{has_no_lease, misunderstood},
    server::Server,
    session::{Session, lost_meanwhile},
    wire::{RangeRequest, Request, Target, TxnResponse, delete, get, is, put},
};
use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    FencingToken, LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, AsyncBackend, BackendError, BackendErrorKind,
        Capabilities, ForceReleaseRequest, ForceReleased, Inspected, LeaseId, ReleaseRequest, Released,
        RenewRequest, Renewed, Reply, StoredHold,
    },
    clock::UtcTime,
};
use std::time::Duration;

/// The tokens of a revision. Its first one is the revision times their number, plus the offset of the store.
const TOKENS: i64 = 512;

/// The attempts of an acquire whose session has ended, or was replaced, meanwhile.
const ATTEMPTS: u32 = 4;

/// The time limit for the end of a lease, and the pause before the next attempt.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// The reads of a transaction; etcd refuses more than 128 operations.
const READS: usize = 100;

/// The answer to a transaction that takes a lock.
enum Take {
    Taken {
        revision: i64,
        offset: i64,
        term: u64,
    },
    Busy,
    /// Another request has written the marker, or the session has ended.
    Outdated,
}

#[async_trait]
impl AsyncBackend for Server {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("etcd").with_max_lease(self.place.session)
    }

    /// etcd has no clock that it tells. This one belongs to the process, and does not step.
    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        Some(self.time())
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let (reserve, floor) = match request.mode {
            AcquireMode::New { reserve, floor } => (reserve, floor),
            AcquireMode::Reenter { depth } => return self.reenter(request, depth).await,
        };
        for _ in 0..ATTEMPTS {
            if self.time() > request.not_after {
                return Ok(self.reply(Acquired::Late));
            }
            // The acquire is not sent yet.
            let not_applied = |error: BackendError| error.with_applied(Applied::No);
            let (lost_before, is_in_doubt) = self.ends.lost(&request.name, request.lease);
            if is_in_doubt {
                // Even if the future of the lost attempt is not dropped yet.
                self.sessions.doubts();
            }
            if let Some(floor) = floor {
                self.raise_offset(floor.as_i64()).await.map_err(not_applied)?;
            }
            let ready = self.sessions.ready().await.map_err(not_applied)?;
            let (session, doubt) = (&ready.session, self.sessions.doubt());
            let attempt = self.ends.begin(&request.name, request.lease, request.duration, lost_before);
            let (taken, renewed) = tokio::join!(self.take(session, &request), self.sessions.renew(session));
            match taken? {
                Take::Taken { revision, offset, term } => {
                    // The session lasts for its whole length from now on only if it was renewed under the same leader.
                    if renewed? != Some(term) {
                        return Err(lost_meanwhile());
                    }
                    if !self.began_in(session, term) {
                        let session = session.clone();
                        drop((ready, doubt, attempt));
                        self.sessions.replace(&session).await?;
                        continue;
                    }
                    doubt.settle();
                    attempt.granted(revision, session.id, request.duration);
                    let first = revision * TOKENS + offset;
                    let last = first + i64::from(reserve).min(TOKENS - 1);
                    return Ok(self.reply(Acquired::Granted { first: token(first), last: token(last) }));
                }
                Take::Busy => {
                    doubt.settle();
                    attempt.refused();
                    return Ok(self.reply(Acquired::Busy { remaining: None }));
                }
                Take::Outdated => {
                    doubt.settle();
                    attempt.refused();
                }
            }
        }
        let message = "the session in etcd ended again and again: try again";
        Err(BackendError::new(BackendErrorKind::Unavailable, Applied::No, message))
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        match self.renew_all(&items).await {
            Ok(answers) => answers.into_iter().map(|answer| Ok(self.reply(answer))).collect(),
            Err(error) => vec![Err(error); items.len()],
        }
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let ReleaseRequest { name, lease, depth_left, .. } = request;
        let had_ended = self.ends.has_ended(&name, lease);
        let keys = self.keys(&name);
        let mut is_marked = false;
        loop {
            let (session, own) = (self.sessions.now(), is(&keys.lock, Target::Value(value(lease))));
            let change = match (&session, depth_left) {
                (Some(session), 1..) => vec![put(&keys.depth, depth_left.to_string(), session.id)],
                _ => vec![delete(&keys.lock), delete(&keys.depth)],
            };
            let released = self.sessions.transact(vec![own], change, vec![get(&keys.lock)]).await;
            let released = match (released, &session) {
                (Err(status), Some(session)) if has_no_lease(&status) => {
                    self.sessions.ended(session.id);
                    continue;
                }
                (released, _) => released.named("release a lock")?,
            };
            if released.succeeded && depth_left > 0 {
                return Ok(self.reply(Released::Kept));
            }
            if !released.succeeded && !is_marked {
                // An acquire under way may have been executed since, and none is after this.
                self.sessions.mark_after(released.revision()).await?;
                is_marked = true;
                continue;
            }
            self.ends.released(&name, lease);
            return Ok(self.reply(match released.succeeded {
                // It had ended, and was not deleted yet.
                true if had_ended => Released::Gone { held_by_other: false },
                true => Released::Released { listeners: None },
                false => Released::Gone { held_by_other: released.kv(0).is_some() },
            }));
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let keys = self.keys(&name);
        let reads = vec![get(&keys.lock), get(&keys.depth)];
        let read = self.sessions.transact(vec![], reads, vec![]).await.named("read a lock")?;
        let text = |place| read.kv(place).map(|kv| String::from_utf8_lossy(&kv.value).into_owned());
        Ok(self.reply(match text(0) {
            None => Inspected::Free,
            // The others' leases end when their processes say so.
            Some(lease) => Inspected::Held(StoredHold {
                depth: text(1).and_then(|depth| depth.parse().ok()).unwrap_or(1),
                remaining: LeaseId::parse(&lease).and_then(|lease| self.ends.remaining(&name, lease)),
                lease,
            }),
        }))
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let keys = self.keys(&request.name);
        let seen = is(&keys.lock, Target::Value(request.seen.into_bytes()));
        let deleted = vec![delete(&keys.lock), delete(&keys.depth)];
        let released = self.sessions.transact(vec![seen], deleted, vec![]).await.named("release a lock")?;
        Ok(self.reply(match released.succeeded {
            true => ForceReleased::Released,
            false => ForceReleased::HolderChanged,
        }))
    }
}

impl Server {
    fn reply<T>(&self, outcome: T) -> Reply<T> {
        Reply::new(self.time(), outcome)
    }

    /// Returns `true` if another session has taken the place of this one.
    fn is_replaced(&self, session: &Session) -> bool {
        self.sessions.now().is_some_and(|now| now.id != session.id)
    }

    /// Takes a free lock, or one that the lease has.
    async fn take(&self, session: &Session, request: &AcquireRequest) -> Result<Take, BackendError> {
        let (keys, offset) = (self.keys(&request.name), self.offset_key());
        let marker = is(&session.marker_key, Target::Changed(session.marker));
        let taken = || vec![put(&keys.lock, value(request.lease), session.id), get(&offset)];
        let seen = || vec![get(&keys.lock), get(&session.marker_key)];
        let attempt = async |condition| {
            let taken = self.sessions.transact(vec![condition, marker.clone()], taken(), seen()).await;
            match taken {
                Err(status) if has_no_lease(&status) => {
                    self.sessions.ended(session.id);
                    Ok(None)
                }
                other => other.named("acquire a lock").map(Some),
            }
        };
        let Some(mut answer) = attempt(is(&keys.lock, Target::Created(0))).await? else {
            return Ok(Take::Outdated);
        };
        if !answer.succeeded && has(&answer, request.lease) {
            let own = is(&keys.lock, Target::Value(value(request.lease)));
            match attempt(own).await? {
                Some(again) => answer = again,
                None => return Ok(Take::Outdated),
            }
        }
        if answer.succeeded {
            let offset = answer.kv(1).map_or(Some(0), |kv| number(&kv.value)).ok_or_else(misunderstood)?;
            return Ok(Take::Taken { revision: answer.revision(), offset, term: answer.term() });
        }
        match answer.kv(1) {
            Some(kv) => self.sessions.marked(session.id, kv.mod_revision),
            None => self.sessions.ended(session.id),
        }
        let is_outdated = answer.kv(1).is_none_or(|kv| kv.mod_revision != session.marker);
        match answer.kv(0) {
            // The newest marker decides whether an earlier attempt can still be executed, so this answer must have it.
            Some(_) if !is_outdated => Ok(Take::Busy),
            _ => Ok(Take::Outdated),
        }
    }

    /// Raises the offset such that all tokens from now on are greater than the floor.
    async fn raise_offset(&self, floor: i64) -> Result<(), BackendError> {
        let key = self.offset_key();
        loop {
            let read = self.read(&key).await?;
            let (offset, changed) = match read.kv(0) {
                Some(kv) => (number(&kv.value).ok_or_else(misunderstood)?, kv.mod_revision),
                None => (0, 0),
            };
            let next = (read.revision() + 1) * TOKENS;
            if next + offset > floor {
                return Ok(());
            }
            let raised = vec![put(&key, (floor + 1 - next).to_string(), 0)];
            let unchanged = vec![is(&key, Target::Changed(changed))];
            self.sessions.transact(unchanged, raised, vec![]).await.named("raise the offset of tokens")?;
        }
    }

    /// Raises the depth of a lease.
    async fn reenter(&self, request: AcquireRequest, depth: u32) -> Result<Reply<Acquired>, BackendError> {
        let AcquireRequest { name, lease, duration, not_after, .. } = request;
        if self.time() > not_after {
            return Ok(self.reply(Acquired::Late));
        }
        let (Some(session), true) = (self.sessions.now(), self.ends.lasts(&name, lease)) else {
            return Ok(self.reply(Acquired::Gone));
        };
        let keys = self.keys(&name);
        let own =
            vec![is(&keys.lock, Target::Value(value(lease))), is(&keys.lock, Target::Lease(session.id))];
        let deeper = vec![put(&keys.depth, depth.to_string(), session.id)];
        let (entered, renewed) =
            tokio::join!(self.sessions.transact(own, deeper, vec![]), self.sessions.renew(&session));
        let entered = match entered {
            Err(status) if has_no_lease(&status) => {
                self.sessions.ended(session.id);
                return Ok(self.reply(Acquired::Gone));
            }
            other => other.named("enter a lock again")?,
        };
        if !entered.succeeded {
            return match self.is_replaced(&session) {
                true => Err(lost_meanwhile()),
                false => Ok(self.reply(Acquired::Gone)),
            };
        }
        if renewed? != Some(entered.term()) || !self.began_in(&session, entered.term()) {
            return Err(lost_meanwhile());
        }
        self.ends.renewed(&name, lease, duration);
        Ok(self.reply(Acquired::Reentered))
    }

    /// Renews the session, and reads which of the locks are still there.
    async fn renew_all(&self, items: &[RenewRequest]) -> Result<Vec<Renewed>, BackendError> {
        let Some(session) = self.sessions.now() else {
            return Ok(vec![Renewed::Gone; items.len()]);
        };
        let mut answers = Vec::with_capacity(items.len());
        for items in items.chunks(READS) {
            let is_late = self.time();
            let reads = items.iter().map(|item| get(&self.keys(&item.name).lock)).collect();
            let read = async { self.sessions.transact(vec![], reads, vec![]).await.named("renew locks") };
            let (read, renewed) = tokio::join!(read, self.sessions.renew(&session));
            let (read, renewed) = (read?, renewed?);
            let Some(term) = renewed else {
                answers.extend(items.iter().map(|_| Renewed::Gone));
                continue;
            };
            if term != read.term() || !self.began_in(&session, term) || self.is_replaced(&session) {
                return Err(lost_meanwhile());
            }
            for (place, item) in items.iter().enumerate() {
                let own = read.kv(place).filter(|kv| kv.value == value(item.lease));
                let is_there = own.is_some() && self.ends.lasts(&item.name, item.lease);
                if is_there && own.is_some_and(|kv| kv.lease != session.id) {
                    // It is being moved.
                    self.follows.notify_one();
                    return Err(lost_meanwhile());
                }
                answers.push(match is_there {
                    _ if is_late > item.not_after => Renewed::Late,
                    true => {
                        self.ends.renewed(&item.name, item.lease, item.duration);
                        Renewed::Renewed
                    }
                    false => Renewed::Gone,
                });
            }
        }
        Ok(answers)
    }

    /// Deletes the locks of leases that have ended, for ever.
    pub(crate) async fn end_leases(&self) {
        loop {
            let ended = self.ends.next().await;
            let ends = ended.iter().map(|(name, lease, end)| {
                let ending = tokio::time::timeout(ENDS_WITHIN, self.end_lease(name, *lease, *end));
                async move { ending.await.unwrap_or_else(|_| Err(lost_meanwhile())) }
            });
            let mut has_failed = false;
            for (answer, (name, lease, end)) in join_all(ends).await.into_iter().zip(&ended) {
                match answer {
                    Ok(()) => self.ends.ended(name, *lease, *end),
                    Err(error) => {
                        has_failed = true;
                        tracing::debug!(%error, "a lease in etcd has ended, and its lock is not deleted yet");
                    }
                }
            }
            if has_failed {
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Deletes the lock of a lease as it was granted; a later grant has another revision.
    async fn end_lease(&self, name: &LockName, lease: LeaseId, end: End) -> Result<(), BackendError> {
        let keys = self.keys(name);
        let revision = match end.revision {
            Some(revision) => revision,
            None => {
                // After the marker, no lost attempt is executed any more.
                self.sessions.mark_after(self.read(&keys.lock).await?.revision()).await?;
                let read = self.read(&keys.lock).await?;
                match read.kv(0) {
                    Some(kv) if kv.value == value(lease) => kv.mod_revision,
                    _ => return Ok(()),
                }
            }
        };
        if !self.ends.is_still(name, lease, end) {
            return Ok(());
        }
        let granted = vec![is(&keys.lock, Target::Changed(revision))];
        let deleted = vec![delete(&keys.lock), delete(&keys.depth)];
        self.sessions.transact(granted, deleted, vec![]).await.named("end a lease").map(drop)
    }

    async fn read(&self, key: &[u8]) -> Result<TxnResponse, BackendError> {
        self.sessions.transact(vec![], vec![get(key)], vec![]).await.named("read a key")
    }

    /// Reads the names of locks that begin with a prefix: at most this many.
    pub(crate) async fn names(&self, prefix: &str, limit: usize) -> Result<Vec<String>, BackendError> {
        let begin = self.keys_of("lock").into_bytes();
        let key = [&begin, prefix.as_bytes()].concat();
        let range = RangeRequest {
            range_end: after(&key),
            key,
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            keys_only: true,
        };
        let read = self.sessions.transact(vec![], vec![Request::Range(range).into()], vec![]).await;
        let read = read.named("list locks")?;
        let names = read.kvs(0).iter().filter_map(|kv| kv.key.strip_prefix(&begin[..]));
        Ok(names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect())
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

/// Returns `true` if a transaction that failed has read that the lease has the lock.
fn has(answer: &TxnResponse, lease: LeaseId) -> bool {
    answer.kv(0).is_some_and(|kv| kv.value == value(lease))
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
