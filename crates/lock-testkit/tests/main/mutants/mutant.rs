//! A correct backend with one bug.

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, FencingToken, LeaseId, LockName, MemoryBackend, ServerTime, Store,
    backend::{
        AcquireRequest, Acquired, Capabilities, ForceRelease, Forced, Inspected, Publish, ReleaseRequest,
        Released, RenewItem, Renewed, Reply, Retention, Signals, StoredHold, SubscriberId, Subscriptions,
        Wish,
    },
};
use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    DeleteWithoutCompare,
    RenewWithoutCompare,
    RenewCreates,
    IncrementingAcquire,
    RepeatResetsDepth,
    ReentryCreates,
    IgnoresNotAfter,
    ShortensExpiry,
    NeverEnds,
    EndsEarly,
    CheckThenSet,
    ConstantToken,
    UnreservedRange,
    IgnoresFloor,
    WatchLater,
    NeverUnwatches,
    PublishesKept,
    AlwaysPublishes,
    NeverPublishes,
    ForceWithoutCompare,
    HidesOther,
    ShufflesRenewals,
    OneDuration,
    TimeFalls,
    CaseBlind,
    CutsNames,
}

#[derive(Debug)]
pub(crate) struct Mutant {
    bug: Bug,
    inner: MemoryBackend,
    signals: Mutex<Vec<Weak<dyn Signals>>>,
    answers: AtomicU64,
}

impl Mutant {
    pub(crate) fn new(bug: Bug, inner: MemoryBackend) -> Self {
        Self { bug, inner, signals: Mutex::default(), answers: AtomicU64::new(0) }
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    fn name(&self, name: LockName) -> LockName {
        match self.bug {
            Bug::CaseBlind => LockName::new(name.as_str().to_lowercase()).unwrap(),
            Bug::CutsNames => match name.as_str().split_once('}') {
                Some((tag, _)) => LockName::new(format!("{tag}}}")).unwrap(),
                None => name,
            },
            _ => name,
        }
    }

    fn say<T>(&self, mut reply: Reply<T>) -> Reply<T> {
        if self.is(Bug::TimeFalls) {
            let fall = self.answers.fetch_add(1, Ordering::SeqCst);
            reply.now = reply.now - Duration::from_millis(fall * 5);
        }
        reply
    }

    async fn held(&self, name: &LockName) -> Option<StoredHold> {
        match self.inner.inspect(name.clone()).await.unwrap().outcome {
            Inspected::Held(hold) => Some(hold),
            _ => None,
        }
    }

    async fn force(&self, name: &LockName) {
        if let Some(StoredHold { lease: seen, .. }) = self.held(name).await {
            self.inner.force_release(ForceRelease { name: name.clone(), seen }).await.unwrap();
        }
    }

    async fn create(&self, name: &LockName, lease: LeaseId, duration: Duration) {
        let not_after = self.inner.server_now(name).unwrap();
        let (name, wish, retention) =
            (name.clone(), Wish::Next { reserve: 0, floor: None }, Retention::Backend);
        let request = AcquireRequest { name, lease, duration, not_after, wish, retention };
        self.inner.acquire(request).await.unwrap();
    }

    async fn set_depth(&self, name: &LockName, lease: LeaseId, depth_left: u32) {
        let (name, publish) = (name.clone(), Publish::No);
        self.inner.release(ReleaseRequest { name, lease, depth_left, publish }).await.unwrap();
    }

    /// Sets the lease anew, with exactly this duration.
    async fn set_again(&self, name: &LockName, lease: LeaseId, duration: Duration, depth: u32) {
        self.set_depth(name, lease, 0).await;
        self.create(name, lease, duration).await;
        self.set_depth(name, lease, depth).await;
    }

    async fn renew_one(&self, item: RenewItem) -> Result<Reply<Renewed>, BackendError> {
        let RenewItem { name, lease, duration, not_after } = item.clone();
        let mut reply = self.inner.renew(vec![item]).await.remove(0)?;
        let holder = self.held(&name).await;
        match (self.bug, reply.outcome, holder) {
            (Bug::RenewCreates, Renewed::Gone, None) => {
                self.create(&name, lease, duration).await;
                reply.outcome = Renewed::Renewed;
            }
            (Bug::RenewWithoutCompare, Renewed::Gone, Some(other)) => {
                let lease = other.lease.parse().unwrap();
                self.inner.renew(vec![RenewItem { name, lease, duration, not_after }]).await;
                reply.outcome = Renewed::Renewed;
            }
            (Bug::ShortensExpiry, Renewed::Renewed, Some(own)) => {
                self.set_again(&name, lease, duration, own.depth).await;
            }
            _ => {}
        }
        Ok(reply)
    }
}

#[async_trait]
impl Backend for Mutant {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<ServerTime> {
        self.inner.server_now(name)
    }

    async fn acquire(&self, mut r: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        r.name = self.name(r.name);
        let (name, lease, duration) = (r.name.clone(), r.lease, r.duration);
        let before = self.held(&name).await;
        let own = before.as_ref().filter(|hold| hold.lease == lease.to_string());
        let keep = matches!(r.wish, Wish::Keep { .. });
        let mut asked = 0;
        match (self.bug, &mut r.wish) {
            (Bug::IgnoresNotAfter, _) => r.not_after = ServerTime::from_micros(u64::MAX),
            (Bug::NeverEnds, _) => r.duration *= 1000,
            (Bug::EndsEarly, _) => r.duration /= 2,
            (Bug::IgnoresFloor, Wish::Next { floor, .. }) => *floor = None,
            (Bug::UnreservedRange, Wish::Next { reserve, .. }) => asked = std::mem::take(reserve),
            (Bug::CheckThenSet, Wish::Next { .. }) if before.is_none() => {
                tokio::task::yield_now().await;
                self.force(&name).await;
            }
            (Bug::ReentryCreates, Wish::Keep { .. }) if before.is_none() => {
                self.create(&name, lease, duration).await;
            }
            _ => {}
        }
        let mut reply = self.inner.acquire(r).await?;
        match (self.bug, &mut reply.outcome) {
            (Bug::ConstantToken, Acquired::Granted { first, last }) => {
                (*first, *last) = (FencingToken::new(7), FencingToken::new(7));
            }
            (Bug::UnreservedRange, Acquired::Granted { first, last }) => {
                *last = FencingToken::new(first.get() + u64::from(asked.min(1000)));
            }
            (Bug::IncrementingAcquire, Acquired::Granted { .. }) => {
                self.set_depth(&name, lease, own.map_or(1, |hold| hold.depth + 1)).await;
            }
            (Bug::RepeatResetsDepth, Acquired::Granted { .. }) => self.set_depth(&name, lease, 1).await,
            (Bug::ShortensExpiry, Acquired::Reentered) if keep => {
                let depth = self.held(&name).await.map_or(1, |hold| hold.depth);
                self.set_again(&name, lease, duration, depth).await;
            }
            _ => {}
        }
        Ok(self.say(reply))
    }

    async fn renew(&self, mut items: Vec<RenewItem>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let one = items.first().map(|item| item.duration);
        let mut answers = Vec::new();
        for mut item in items.drain(..) {
            item.name = self.name(item.name);
            if let (Bug::OneDuration, Some(one)) = (self.bug, one) {
                item.duration = one;
            }
            answers.push(self.renew_one(item).await.map(|reply| self.say(reply)));
        }
        if self.is(Bug::ShufflesRenewals) {
            answers.reverse();
        }
        answers
    }

    async fn release(&self, mut r: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        r.name = self.name(r.name);
        if self.is(Bug::AlwaysPublishes) {
            r.publish = Publish::Yes;
        }
        if self.is(Bug::NeverPublishes) {
            r.publish = Publish::No;
        }
        let name = r.name.clone();
        let mut reply = self.inner.release(r).await?;
        match (self.bug, reply.outcome) {
            (Bug::DeleteWithoutCompare, Released::Gone { held_by_other: true }) => {
                self.force(&name).await;
                reply.outcome = Released::Released { listeners: None };
            }
            (Bug::HidesOther, Released::Gone { .. }) => {
                reply.outcome = Released::Gone { held_by_other: false }
            }
            (Bug::PublishesKept, Released::Kept) => {
                let signals = self.signals.lock().unwrap().clone();
                signals.iter().filter_map(Weak::upgrade).for_each(|signals| signals.freed(&name));
            }
            _ => {}
        }
        Ok(self.say(reply))
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.inner.inspect(self.name(name)).await.map(|reply| self.say(reply))
    }

    async fn force_release(&self, mut r: ForceRelease) -> Result<Reply<Forced>, BackendError> {
        r.name = self.name(r.name);
        if let (Bug::ForceWithoutCompare, Some(hold)) = (self.bug, self.held(&r.name).await) {
            r.seen = hold.lease;
        }
        self.inner.force_release(r).await.map(|reply| self.say(reply))
    }
}

#[async_trait]
impl Subscriptions for Mutant {
    fn register_listener(&self, listener: Weak<dyn Signals>) -> SubscriberId {
        self.signals.lock().unwrap().push(listener.clone());
        self.inner.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        if self.is(Bug::WatchLater) {
            let inner = self.inner.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                inner.subscribe(subscriber, name).await
            });
            return Ok(());
        }
        self.inner.subscribe(subscriber, name).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        match self.is(Bug::NeverUnwatches) {
            true => Ok(()),
            false => self.inner.unsubscribe(subscriber, name).await,
        }
    }
}

impl From<Mutant> for Store {
    fn from(mutant: Mutant) -> Self {
        Self::from(Arc::new(mutant))
    }
}
