//! A lease id with a method for each store operation, used by the conformance properties.

use lock_core::{
    FencingToken, LockName, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Backend, BackendExt as _, Floor, Inspected, LeaseId,
        LeaseNumber, NotifyWaiters, PermitRequest, Place, ProcessId, ReleaseRequest, Released, RenewRequest,
        Renewed, Reply, Share, StoredHold,
    },
    clock::UtcTime,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A lease long enough not to expire during a test, even on a slow machine.
pub const LONG: Duration = Duration::from_secs(20);
/// A lease short enough for tests to wait for its expiry.
pub const SHORT: Duration = Duration::from_millis(400);
/// The time after which a [`SHORT`] lease has certainly expired.
pub const PAST_SHORT: Duration = Duration::from_millis(500);
/// A lease that can be renewed in time even on a slow machine, and that is short enough for tests
/// to wait for its expiry.
pub const RENEWED: Duration = Duration::from_secs(3);
/// The tolerance for slow machines: the remaining time of a new lease may be this much below its
/// duration.
pub const SLOW: Duration = Duration::from_secs(10);

/// The suite's time limit for an acquire.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that sends requests with a single lease id.
#[derive(Debug, Clone)]
pub struct Contender {
    backend: Arc<dyn Backend>,
    lease: LeaseId,
}

/// The tokens of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// The token of the hold.
    pub first: FencingToken,
    /// The last token of the reserved range.
    pub last: FencingToken,
}

impl Contender {
    /// Creates a lease id for a new process.
    pub fn new(backend: &Arc<dyn Backend>) -> Self {
        Self::of(backend, ProcessId::random())
    }

    /// Creates another lease id for an existing process.
    pub fn of(backend: &Arc<dyn Backend>, process: ProcessId) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = LeaseNumber::new(NEXT.fetch_add(1, Ordering::Relaxed));
        Self { backend: backend.clone(), lease: LeaseId::new(process, number) }
    }

    /// Returns the lease id.
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// Returns an acquire request for this lease whose `not_after` has not passed.
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

    /// Tries to acquire the lock.
    pub async fn acquire(&self, name: &LockName, duration: Duration) -> Acquired {
        self.acquire_reply(name, duration).await.outcome
    }

    /// Tries to acquire the lock, and returns the whole reply.
    pub async fn acquire_reply(&self, name: &LockName, duration: Duration) -> Reply<Acquired> {
        let request = self.request(name, duration, next(0, None)).await;
        self.send(request).await
    }

    /// Sends `request` unchanged.
    pub async fn send(&self, request: AcquireRequest) -> Reply<Acquired> {
        self.backend.acquire(request).await.expect("acquire failed on a healthy store")
    }

    /// Acquires the lock. Panics unless the lock is granted.
    pub async fn take(&self, name: &LockName, duration: Duration) -> Tokens {
        self.take_with(name, duration, 0, None).await
    }

    /// Acquires the lock with reserved tokens. Panics unless the lock is granted.
    pub async fn take_with(&self, name: &LockName, duration: Duration, reserve: u32, floor: Floor) -> Tokens {
        let request = self.request(name, duration, next(reserve, floor)).await;
        granted(self.send(request).await.outcome)
    }

    /// Re-enters the lock.
    pub async fn keep(&self, name: &LockName, depth: u32, duration: Duration) -> Acquired {
        let request = self.request(name, duration, AcquireMode::Reenter { depth }).await;
        self.send(request).await.outcome
    }

    /// Asks for a permit, with this place in the queue.
    pub async fn ask(
        &self,
        name: &LockName,
        lease: Duration,
        share: Share,
        place: Option<Place>,
    ) -> Acquired {
        let permit = PermitRequest { share, place, floor: None }.into();
        let request = self.request(name, lease, AcquireMode::Permit(permit)).await;
        self.send(request).await.outcome
    }

    /// Asks for a permit, with a place in the queue that has the id of the lease and a patience of [`LONG`].
    pub async fn queue(&self, name: &LockName, weight: u32, limit: u32) -> Acquired {
        let place = Place { id: self.lease, patience: LONG };
        self.ask(name, LONG, Share { weight, limit }, Some(place)).await
    }

    /// Returns a renewal request for this lease.
    pub fn renewal(&self, name: &LockName, duration: Duration) -> RenewRequest {
        RenewRequest {
            name: name.clone(),
            lease: self.lease,
            duration,
            not_after: UtcTime::from_micros(u64::MAX),
        }
    }

    /// Renews this lease, in a call with no other items.
    pub async fn renew(&self, name: &LockName, duration: Duration) -> Renewed {
        let mut answers = self.backend.renew(vec![self.renewal(name, duration)]).await;
        assert_eq!(answers.len(), 1, "expected one reply to one renewal");
        let answer = answers.remove(0);
        answer.expect("renewal failed on a healthy store").outcome
    }

    /// Lowers the depth to this value, or frees the lock if it is 0, and notifies waiters.
    pub async fn release(&self, name: &LockName, depth_left: u32) -> Released {
        self.release_with(name, depth_left, NotifyWaiters::Yes).await
    }

    /// Lowers the depth to this value, or frees the lock if it is 0.
    pub async fn release_with(&self, name: &LockName, depth_left: u32, notify: NotifyWaiters) -> Released {
        let request = ReleaseRequest { name: name.clone(), lease: self.lease, depth_left, notify };
        self.backend.release(request).await.expect("release failed on a healthy store").outcome
    }

    /// Releases the lock. Panics unless this lease holds it.
    pub async fn free(&self, name: &LockName) {
        let released = self.release(name, 0).await;
        assert!(
            matches!(released, Released::Released { .. }),
            "expected {name} to be released, got {released:?}"
        );
    }

    /// Panics unless this lease holds the lock in the store, at this depth.
    pub async fn must_hold(&self, name: &LockName, depth: u32) -> StoredHold {
        let hold = held(&self.backend, name).await;
        let hold =
            hold.unwrap_or_else(|| panic!("expected {name} to be held at depth {depth}, but it is free"));
        assert_eq!(hold.lease, self.lease.to_string(), "{name} is held by another lease");
        assert_eq!(hold.depth, depth, "{name} is held at another depth");
        hold
    }

    /// Panics unless the stored lease has about this much time left.
    pub async fn must_last(&self, name: &LockName, depth: u32, lease: Duration) {
        if let Some(remaining) = self.must_hold(name, depth).await.remaining {
            assert!(remaining <= lease, "{name} has {remaining:?} left, more than the requested {lease:?}");
            assert!(remaining + SLOW > lease, "{name} has only {remaining:?} of {lease:?} left");
        }
    }
}

/// Returns the mode for a new acquisition.
pub fn next(reserve: u32, floor: Floor) -> AcquireMode {
    AcquireMode::New { reserve, floor }
}

/// Returns the tokens of a grant. Panics if the reply is not a grant.
pub fn granted(acquired: Acquired) -> Tokens {
    match acquired {
        Acquired::Granted { first, last } => Tokens { first, last },
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// Panics unless another lease holds the lock.
pub fn must_be_busy(acquired: &Acquired) {
    assert!(matches!(acquired, Acquired::Busy { .. }), "expected `Busy` for a held lock, got {acquired:?}");
}

/// Returns the server's time: the backend's estimate if there is one, otherwise the time from a
/// reply.
pub async fn now(backend: &Arc<dyn Backend>, name: &LockName) -> UtcTime {
    match backend.server_now(name) {
        Some(now) => now,
        None => look(backend, name).await.now,
    }
}

/// Inspects a lock.
pub async fn look(backend: &Arc<dyn Backend>, name: &LockName) -> Reply<Inspected> {
    backend.inspect(name.clone()).await.expect("inspection failed on a healthy store")
}

/// Returns the holder of a lock.
pub async fn held(backend: &Arc<dyn Backend>, name: &LockName) -> Option<StoredHold> {
    match look(backend, name).await.outcome {
        Inspected::Free => None,
        Inspected::Held(hold) => Some(hold),
        other => panic!("unexpected state of {name}: {other:?}"),
    }
}

/// Panics unless the lock is free.
pub async fn must_be_free(backend: &Arc<dyn Backend>, name: &LockName) {
    let hold = held(backend, name).await;
    assert!(hold.is_none(), "expected {name} to be free, but it is held: {hold:?}");
}
