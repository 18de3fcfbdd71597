//! The operations on leases, by the requests of a store.

use crate::{
    ends::{End, Ends},
    sessions::Sessions,
    store::{OwnLock, SessionStore, Take},
};
use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    __private::{OnWorker, decode_card, encode_card},
    LockName, Worker,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, AsyncBackend, BackendError, BackendErrorKind,
        Capabilities, Directory, ForceReleaseRequest, ForceReleased, Inspected, LeaseId, ProcessId,
        ReleaseRequest, Released, RenewRequest, Renewed, Reply, StoredHold, SubscriberId, Subscriptions,
        WakeListener,
    },
    clock::UtcTime,
    inspect::{ListLimits, Listing, ProcessCard},
};
use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// The attempts of an acquire whose session has ended, or was replaced, meanwhile.
const ATTEMPTS: u32 = 4;

/// The time limit for the end of a lease, and the pause before the next attempt.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// The locks of a process in a store with sessions.
#[derive(Debug)]
pub struct SessionLocks<S: SessionStore> {
    store: Arc<S>,
    sessions: Sessions<S>,
    ends: Ends<S::Grant>,
    /// The time of the process: that of its wall clock when the store was created, and then that of one that does not step.
    begun: (UtcTime, Instant),
}

impl<S: SessionStore> SessionLocks<S> {
    /// Creates the locks of a process. Nothing is requested yet.
    #[must_use]
    pub fn new(store: Arc<S>) -> Self {
        Self {
            sessions: Sessions::new(store.clone()),
            ends: Ends::new(),
            begun: (UtcTime::now(), Instant::now()),
            store,
        }
    }

    /// Runs the operations in a worker, where the ends of leases are kept.
    #[must_use]
    pub fn on(self, worker: Worker) -> OnWorker<Self> {
        let locks = Arc::new(self);
        let ends = locks.clone();
        OnWorker::new(locks, worker).beside(async move |store_ends| {
            tokio::select! {
                () = ends.end_leases() => {}
                _ = store_ends => {}
            }
        })
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the sessions.
    #[must_use]
    pub fn sessions(&self) -> &Sessions<S> {
        &self.sessions
    }

    /// Returns the leases that may be in the store.
    #[must_use]
    pub fn ends(&self) -> &Ends<S::Grant> {
        &self.ends
    }

    /// Begins a session, unless there is one.
    ///
    /// # Errors
    /// Those of [`SessionStore::begin`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn connect(&self) -> Result<(), BackendError> {
        self.sessions.connected().await.map(drop)
    }

    fn time(&self) -> UtcTime {
        let (time, instant) = self.begun;
        time + instant.elapsed()
    }

    fn reply<T>(&self, outcome: T) -> Reply<T> {
        Reply::new(self.time(), outcome)
    }

    /// Raises the depth of a lease.
    async fn reenter(&self, request: AcquireRequest, depth: u32) -> Result<Reply<Acquired>, BackendError> {
        let AcquireRequest { name, lease, duration, not_after, .. } = request;
        if self.time() > not_after {
            return Ok(self.reply(Acquired::Late));
        }
        let (Some(session), Some(grant)) = (self.sessions.now(), self.ends.lasting(&name, lease)) else {
            return Ok(self.reply(Acquired::Gone));
        };
        let lock = OwnLock { name, lease, grant };
        if !self.store.set_depth(&session, &lock, depth).await? {
            return match self.is_replaced(session.id) {
                true => Err(self.lost_meanwhile()),
                false => Ok(self.reply(Acquired::Gone)),
            };
        }
        self.ends.renewed(&lock.name, lease, duration);
        Ok(self.reply(Acquired::Reentered))
    }

    /// Lowers the depth of a lease.
    async fn leave(
        &self,
        name: LockName,
        lease: LeaseId,
        depth: u32,
    ) -> Result<Reply<Released>, BackendError> {
        if let (Some(session), Some(grant)) = (self.sessions.now(), self.ends.grant(&name, lease)) {
            let lock = OwnLock { name: name.clone(), lease, grant };
            if self.store.set_depth(&session, &lock, depth).await? {
                return Ok(self.reply(Released::Kept));
            }
            if self.is_replaced(session.id) {
                return Err(self.lost_meanwhile());
            }
        }
        let held_by_other = self.store.read(&name).await?.is_some_and(|s| s.lease != lease.to_string());
        Ok(self.reply(Released::Gone { held_by_other }))
    }

    /// Renews the session, and the leases whose locks are still there.
    async fn renew_all(&self, items: &[RenewRequest]) -> Result<Vec<Renewed>, BackendError> {
        let asked = self.time();
        let grants: Vec<_> = items.iter().map(|item| self.ends.lasting(&item.name, item.lease)).collect();
        let known = items.iter().zip(&grants).filter_map(|(item, grant)| {
            grant.map(|grant| OwnLock { name: item.name.clone(), lease: item.lease, grant })
        });
        let known: Vec<_> = known.collect();
        let there = match self.sessions.now() {
            Some(session) => {
                let there = self.store.renew(&session, &known).await?;
                match there {
                    None => self.sessions.ended(session.id),
                    Some(_) if self.is_replaced(session.id) => return Err(self.lost_meanwhile()),
                    Some(_) => {}
                }
                there
            }
            None => None,
        };
        let mut there = there.unwrap_or_else(|| vec![false; known.len()]).into_iter();
        let answer = |(item, grant): (&RenewRequest, Option<S::Grant>)| {
            let is_there = grant.is_some()
                && there.next().unwrap_or_default()
                && self.ends.lasting(&item.name, item.lease).is_some();
            match is_there {
                _ if asked > item.not_after => Renewed::Late,
                false => Renewed::Gone,
                true => {
                    self.ends.renewed(&item.name, item.lease, item.duration);
                    Renewed::Renewed
                }
            }
        };
        Ok(items.iter().zip(grants).map(answer).collect())
    }

    /// Deletes the locks of leases that have ended, for ever.
    async fn end_leases(&self) {
        loop {
            let ended = self.ends.next().await;
            let ends = ended.iter().map(|(name, lease, end)| {
                let ending = tokio::time::timeout(ENDS_WITHIN, self.end_lease(name, *lease, *end));
                async move { ending.await.unwrap_or_else(|_| Err(self.lost_meanwhile())) }
            });
            let mut has_failed = false;
            for (answer, (name, lease, end)) in join_all(ends).await.into_iter().zip(&ended) {
                match answer {
                    Ok(()) => self.ends.ended(name, *lease, *end),
                    Err(error) => {
                        has_failed = true;
                        tracing::debug!(%error, "a lease has ended, and its lock is not deleted yet");
                    }
                }
            }
            if has_failed {
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Deletes the lock of a lease as it was granted; a later grant is another one.
    async fn end_lease(
        &self,
        name: &LockName,
        lease: LeaseId,
        end: End<S::Grant>,
    ) -> Result<(), BackendError> {
        let grant = match end.grant {
            Some(grant) => grant,
            None => {
                // After the marker, no lost attempt is executed any more.
                self.sessions.mark_since(self.sessions.marks()).await?;
                match self.store.read(name).await? {
                    Some(stored) if stored.lease == lease.to_string() => stored.grant,
                    _ => return Ok(()),
                }
            }
        };
        if !self.ends.is_still(name, lease, end) {
            return Ok(());
        }
        self.store.delete(name, grant).await.map(drop)
    }

    /// Returns `true` if another session has taken the place of this one, so that its locks may have moved.
    fn is_replaced(&self, id: i64) -> bool {
        self.sessions.now().is_some_and(|now| now.id != id)
    }

    fn lost_meanwhile(&self) -> BackendError {
        lost_meanwhile(self.store.name())
    }
}

/// The session ended, or its leader changed, while an operation was executed.
#[must_use]
pub fn lost_meanwhile(store: &str) -> BackendError {
    let message =
        format!("the session in {store} ended, or its leader changed, while the operation was executed");
    BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message)
}

#[async_trait]
impl<S: SessionStore> AsyncBackend for SessionLocks<S> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.store.name()).with_max_lease(self.store.max_lease())
    }

    /// The store has no clock that it tells. This one belongs to the process, and does not step.
    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        Some(self.time())
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let floor = match request.mode {
            AcquireMode::New { floor, .. } => floor,
            AcquireMode::Reenter { depth } => return self.reenter(request, depth).await,
            AcquireMode::Permit(_) => {
                return Err(BackendError::without_permits("a store that decides by majority"));
            }
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
            let ready = self.sessions.ready().await.map_err(not_applied)?;
            if let Some(floor) = floor {
                self.store.raise_tokens(floor).await.map_err(not_applied)?;
            }
            let doubt = self.sessions.doubt();
            let attempt = self.ends.begin(&request.name, request.lease, request.duration, lost_before);
            match self.store.take(&ready.session, &request).await? {
                Take::Taken { grant, first, last } => {
                    doubt.settle();
                    attempt.granted(grant, request.duration);
                    return Ok(self.reply(Acquired::Granted { first, last }));
                }
                Take::Busy => {
                    // The newest marker decides whether an earlier attempt can still be executed.
                    doubt.settle();
                    attempt.refused();
                    // Its end is pushed like a release.
                    return Ok(self.reply(Acquired::Busy { remaining: Some(Duration::MAX) }));
                }
                Take::Outdated(marker) => {
                    match marker {
                        Some(version) => self.sessions.marked(ready.session.id, version),
                        None => self.sessions.ended(ready.session.id),
                    }
                    doubt.settle();
                    attempt.refused();
                }
                Take::Replace => {
                    let old = ready.session.id;
                    drop((ready, doubt, attempt));
                    self.sessions.replace(old).await?;
                }
            }
        }
        let message = format!("the session in {} ended again and again: try again", self.store.name());
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
        if depth_left > 0 {
            return self.leave(name, lease, depth_left).await;
        }
        let (had_ended, marks) = (self.ends.has_ended(&name, lease), self.sessions.marks());
        let mut grant = self.ends.grant(&name, lease);
        let mut is_marked = false;
        loop {
            let mut is_other = false;
            if grant.is_none() {
                let stored = self.store.read(&name).await?;
                is_other = stored.as_ref().is_some_and(|stored| stored.lease != lease.to_string());
                grant = stored.filter(|_| !is_other).map(|stored| stored.grant);
            }
            if let Some(grant) = grant.take() {
                if self.store.delete(&name, grant).await? {
                    self.ends.released(&name, lease);
                    return Ok(self.reply(match had_ended {
                        // It was not deleted yet.
                        true => Released::Gone { held_by_other: false },
                        false => Released::Released { listeners: None },
                    }));
                }
            } else if is_marked {
                self.ends.released(&name, lease);
                return Ok(self.reply(Released::Gone { held_by_other: is_other }));
            } else {
                // An acquire under way may have been executed since, and none is after this.
                self.sessions.mark_since(marks).await?;
                is_marked = true;
            }
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        let stored = self.store.read(&name).await?;
        Ok(self.reply(match stored {
            None => Inspected::Free,
            // The others' leases end when their processes say so.
            Some(stored) => Inspected::Held(StoredHold {
                depth: stored.depth,
                remaining: LeaseId::parse(&stored.lease).and_then(|lease| self.ends.remaining(&name, lease)),
                lease: stored.lease,
            }),
        }))
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        let is_done = match self.store.read(&request.name).await? {
            Some(stored) if stored.lease == request.seen => {
                self.store.delete(&request.name, stored.grant).await?
            }
            _ => false,
        };
        Ok(self.reply(if is_done { ForceReleased::Released } else { ForceReleased::HolderChanged }))
    }
}

#[async_trait]
impl<S: SessionStore> Subscriptions for SessionLocks<S> {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.store.wakes().register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.store.wakes().subscribe(subscriber, name).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.store.wakes().unsubscribe(subscriber, name).await
    }
}

/// Cards last as long as the session.
#[async_trait]
impl<S: SessionStore> Directory for SessionLocks<S> {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        _: Duration,
    ) -> Result<(), BackendError> {
        let session = self.sessions.connected().await?;
        self.store.write_card(&session, process, encode_card(&card)).await
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        self.store.remove_card(process).await
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        Ok(self.store.read_card(process).await?.and_then(|card| decode_card(&card)))
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        // One more, which says that there are more.
        let names = self.store.names(&prefix, limits.names().saturating_add(1)).await?;
        let is_truncated = names.len() > limits.names();
        // A reserved name is not valid.
        let names = names.into_iter().take(limits.names()).filter_map(|name| LockName::new(name).ok());
        Ok(Listing::new(names, is_truncated))
    }
}
