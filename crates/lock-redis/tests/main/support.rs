//! Shared helpers: backends over a scripted server, requests, listeners.

use crate::scripted::Scripted;
use lock_core::{
    __private::Answer,
    LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendError, BackendErrorKind,
        BackendExt as _, LeaseId, LeaseNumber, MissedWakes, NotifyWaiters, Operation, ProcessId,
        ReleaseRequest, RenewRequest, Reply, Submission, Subscriptions as _, WakeListener,
    },
    clock::UtcTime,
};
use lock_redis::RedisBackend;
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

pub(crate) type Backed = RedisBackend<Scripted>;

/// Returns a server and a backend that is connected to it.
pub(crate) async fn connected() -> (Scripted, Backed) {
    let client = Scripted::default();
    let backend = client.builder().connect().await.expect("healthy store");
    (client, backend)
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("valid name")
}

fn lease() -> LeaseId {
    LeaseId::new(ProcessId::random(), LeaseNumber::new(1))
}

/// Acquires once, without retries.
pub(crate) async fn acquire(backend: &Backed, lock: &str) -> Result<Reply<Acquired>, BackendError> {
    backend.acquire(acquisition(lock)).await
}

pub(crate) fn acquisition(lock: &str) -> AcquireRequest {
    AcquireRequest {
        retention: lock_core::Retention::Backend,
        name: name(lock),
        lease: lease(),
        duration: Duration::from_secs(30),
        not_after: UtcTime::from_micros(u64::MAX >> 1),
        mode: AcquireMode::New { reserve: 0, floor: None },
    }
}

pub(crate) fn release_request(lock: &str) -> ReleaseRequest {
    ReleaseRequest { name: name(lock), lease: lease(), depth_left: 0, notify: NotifyWaiters::EvenIfGone }
}

/// Submits an acquire and returns the future of its reply.
pub(crate) fn submit(backend: &Backed, lock: &str) -> Answer {
    let (submission, answer) = Submission::channel(Operation::Acquire(acquisition(lock)));
    backend.submit(submission);
    answer
}

/// Fills the maximum number of calls, so that later operations must wait. The server must not reply during this.
pub(crate) async fn fill_calls(backend: &Backed) -> Vec<Answer> {
    let mut sent = Vec::new();
    for size in [1, 1, 2, 4, 8, 16, 32, 32] {
        sent.extend((0..size).map(|number| submit(backend, &format!("sent:{number}"))));
        // Lets the task of the connection run.
        tokio::task::yield_now().await;
    }
    sent
}

pub(crate) fn renewal(lock: &str) -> RenewRequest {
    let not_after = UtcTime::from_micros(u64::MAX >> 1);
    RenewRequest { name: name(lock), lease: lease(), duration: Duration::from_secs(30), not_after }
}

/// Returns the kind and the outcome of a failed request.
pub(crate) fn meaning<T: std::fmt::Debug>(answer: &Result<T, BackendError>) -> (BackendErrorKind, Applied) {
    let error = answer.as_ref().expect_err("must fail");
    (error.kind(), error.applied())
}

/// Records its wake-ups in order, or panics on them.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    pub(crate) heard: Mutex<Vec<String>>,
    panics: bool,
}

impl Listener {
    pub(crate) fn attached(backend: &Backed) -> (Arc<Self>, lock_core::backend::SubscriberId) {
        Self::default().attach(backend)
    }

    pub(crate) fn panicking(backend: &Backed) -> (Arc<Self>, lock_core::backend::SubscriberId) {
        Self { panics: true, ..Self::default() }.attach(backend)
    }

    fn attach(self, backend: &Backed) -> (Arc<Self>, lock_core::backend::SubscriberId) {
        let listener = Arc::new(self);
        let signals: Arc<dyn WakeListener> = listener.clone();
        let weak: Weak<dyn WakeListener> = Arc::downgrade(&signals);
        let id = backend.register_listener(weak);
        (listener, id)
    }

    /// Returns the wake-ups since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

impl WakeListener for Listener {
    fn released(&self, name: &LockName) {
        assert!(!self.panics, "planned panic of a listener");
        self.heard.lock().unwrap().push(name.to_string());
    }

    fn wake_all(&self, reason: MissedWakes) {
        self.heard.lock().unwrap().push(format!("all: {reason:?}"));
    }

    fn server_restarted(&self) {}
}
