//! A lease that asks a store for things: the hand with which the properties touch a backend.

use lock_core::{
    FencingToken, LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Backend, Floor, Inspected, LeaseId, LeaseNumber,
        NotifyWaiters, ProcessId, ReleaseRequest, Released, RenewRequest, Renewed, Reply, Retention,
        StoredHold,
    },
    clock::ServerTime,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A lease that does not end while a property looks at it, even on a slow machine.
pub const LONG: Duration = Duration::from_secs(20);
/// A lease whose end a property waits for.
pub const SHORT: Duration = Duration::from_millis(400);
/// After this time a [`SHORT`] lease is certainly over.
pub const PAST_SHORT: Duration = Duration::from_millis(500);
/// A lease that is renewed before its end even on a slow machine, and whose end a property can wait for.
pub const RENEWED: Duration = Duration::from_secs(3);
/// A lease was set a moment ago if it lasts at least this much less than asked: room for slow machines.
pub const SLOW: Duration = Duration::from_secs(10);

/// How long an acquire of the suite may be under way.
const PATIENCE: Duration = Duration::from_secs(60);

/// One lease id, asking.
#[derive(Debug, Clone)]
pub struct Contender {
    backend: Arc<dyn Backend>,
    lease: LeaseId,
}

/// The tokens of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// The one to give out.
    pub first: FencingToken,
    /// The end of the range.
    pub last: FencingToken,
}

impl Contender {
    /// A process of its own.
    pub fn new(backend: &Arc<dyn Backend>) -> Self {
        Self::of(backend, ProcessId::random())
    }

    /// Another lease of a process.
    pub fn of(backend: &Arc<dyn Backend>, process: ProcessId) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = LeaseNumber::new(NEXT.fetch_add(1, Ordering::Relaxed));
        Self { backend: backend.clone(), lease: LeaseId::new(process, number) }
    }

    /// Its id.
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// An acquire of this lease that is in time.
    pub async fn request(&self, name: &LockName, duration: Duration, mode: AcquireMode) -> AcquireRequest {
        let not_after = now(&self.backend, name).await + PATIENCE;
        AcquireRequest {
            name: name.clone(),
            lease: self.lease,
            duration,
            not_after,
            mode,
            retention: Retention::Backend,
        }
    }

    /// Asks for the lock.
    pub async fn acquire(&self, name: &LockName, duration: Duration) -> Acquired {
        self.acquire_reply(name, duration).await.outcome
    }

    /// Asks for the lock and looks at the whole reply.
    pub async fn acquire_reply(&self, name: &LockName, duration: Duration) -> Reply<Acquired> {
        let request = self.request(name, duration, next(0, None)).await;
        self.send(request).await
    }

    /// Sends exactly this.
    pub async fn send(&self, request: AcquireRequest) -> Reply<Acquired> {
        self.backend.acquire(request).await.expect("an acquire on a healthy store is answered")
    }

    /// Asks for the lock and must get it.
    pub async fn take(&self, name: &LockName, duration: Duration) -> Tokens {
        self.take_with(name, duration, 0, None).await
    }

    /// Asks for the lock and for tokens, and must get them.
    pub async fn take_with(&self, name: &LockName, duration: Duration, reserve: u32, floor: Floor) -> Tokens {
        let request = self.request(name, duration, next(reserve, floor)).await;
        granted(self.send(request).await.outcome)
    }

    /// Asks for a re-entry.
    pub async fn keep(&self, name: &LockName, depth: u32, duration: Duration) -> Acquired {
        let request = self.request(name, duration, AcquireMode::Reenter { depth }).await;
        self.send(request).await.outcome
    }

    /// An item of a renewal.
    pub fn renewal(&self, name: &LockName, duration: Duration) -> RenewRequest {
        RenewRequest {
            name: name.clone(),
            lease: self.lease,
            duration,
            not_after: ServerTime::from_micros(u64::MAX),
        }
    }

    /// Renews this lease alone.
    pub async fn renew(&self, name: &LockName, duration: Duration) -> Renewed {
        let mut answers = self.backend.renew(vec![self.renewal(name, duration)]).await;
        assert_eq!(answers.len(), 1, "one renewal has one answer");
        let answer = answers.remove(0);
        answer.expect("a renewal on a healthy store is answered").outcome
    }

    /// Releases to this depth and tells waiters.
    pub async fn release(&self, name: &LockName, depth_left: u32) -> Released {
        self.release_with(name, depth_left, NotifyWaiters::Yes).await
    }

    /// Releases to this depth.
    pub async fn release_with(&self, name: &LockName, depth_left: u32, notify: NotifyWaiters) -> Released {
        let request = ReleaseRequest { name: name.clone(), lease: self.lease, depth_left, notify };
        self.backend.release(request).await.expect("a release on a healthy store is answered").outcome
    }

    /// Frees the lock and must have held it.
    pub async fn free(&self, name: &LockName) {
        let released = self.release(name, 0).await;
        assert!(
            matches!(released, Released::Released { .. }),
            "{name} was held and is freed, not {released:?}"
        );
    }

    /// Fails unless the store holds the lock for this lease at this depth.
    pub async fn must_hold(&self, name: &LockName, depth: u32) -> StoredHold {
        let hold = held(&self.backend, name).await;
        let hold = hold.unwrap_or_else(|| panic!("{name} is held at depth {depth}, not free"));
        assert_eq!(hold.lease, self.lease.to_string(), "{name} is held by this lease");
        assert_eq!(hold.depth, depth, "{name} is held at this depth");
        hold
    }

    /// Fails unless the lease in the store lasts about this long.
    pub async fn must_last(&self, name: &LockName, depth: u32, lease: Duration) {
        if let Some(remaining) = self.must_hold(name, depth).await.remaining {
            assert!(remaining <= lease, "{name} lasts {remaining:?}, longer than the {lease:?} asked for");
            assert!(remaining + SLOW > lease, "{name} lasts only {remaining:?} of {lease:?}");
        }
    }
}

/// The mode of a first acquire.
pub fn next(reserve: u32, floor: Floor) -> AcquireMode {
    AcquireMode::New { reserve, floor }
}

/// The tokens of an answer that must be a grant.
pub fn granted(acquired: Acquired) -> Tokens {
    match acquired {
        Acquired::Granted { first, last } => Tokens { first, last },
        other => panic!("a free lock is granted, not {other:?}"),
    }
}

/// Fails unless another lease holds the lock.
pub fn must_be_busy(acquired: &Acquired) {
    assert!(matches!(acquired, Acquired::Busy { .. }), "a taken lock is busy, not {acquired:?}");
}

/// The server's time: the backend's estimate, or what the server says.
pub async fn now(backend: &Arc<dyn Backend>, name: &LockName) -> ServerTime {
    match backend.server_now(name) {
        Some(now) => now,
        None => look(backend, name).await.now,
    }
}

/// What is stored under a name.
pub async fn look(backend: &Arc<dyn Backend>, name: &LockName) -> Reply<Inspected> {
    backend.inspect(name.clone()).await.expect("an inspection on a healthy store is answered")
}

/// Who holds a lock.
pub async fn held(backend: &Arc<dyn Backend>, name: &LockName) -> Option<StoredHold> {
    match look(backend, name).await.outcome {
        Inspected::Free => None,
        Inspected::Held(hold) => Some(hold),
        other => panic!("{name} is free or held, not {other:?}"),
    }
}

/// Fails unless nobody holds the lock.
pub async fn must_be_free(backend: &Arc<dyn Backend>, name: &LockName) {
    let hold = held(backend, name).await;
    assert!(hold.is_none(), "{name} is free, not held: {hold:?}");
}
