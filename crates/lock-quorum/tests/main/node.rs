//! A quorum node that a test can take down, silence or empty.

use async_trait::async_trait;
use lock_core::{
    LockName, MemoryBackend,
    backend::{
        Applied, Backend, BackendError, BackendErrorKind, Capabilities, ForceReleaseRequest, ForceReleased,
        Inspected, Reply, Submission, SubscriberId, Subscriptions, WakeListener,
    },
    clock::{TestClock, UtcTime},
};
use lock_quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, QuorumNode, Vote};
use std::{
    future::{Future, pending},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Up,
    /// Refuses connections.
    Down,
    /// Executes and answers nothing, like a stopped process.
    Stopped,
    /// Executes everything; its answers are lost.
    Mute,
    /// Delays every operation by this time.
    Slow(Duration),
}

#[derive(Debug, Clone)]
pub(super) struct TestNode {
    pub(super) memory: MemoryBackend,
    mode: Arc<Mutex<Mode>>,
    proposals: Arc<AtomicUsize>,
}

impl TestNode {
    pub(super) fn new() -> Self {
        let memory = MemoryBackend::with_clock(Arc::new(TestClock::new()));
        Self { memory, mode: Arc::new(Mutex::new(Mode::Up)), proposals: Arc::default() }
    }

    /// The number of proposals so far.
    pub(super) fn proposals(&self) -> usize {
        self.proposals.load(Ordering::SeqCst)
    }

    pub(super) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    async fn carry<T>(&self, work: impl Future<Output = T>) -> Result<T, BackendError> {
        let mode = *self.mode.lock().unwrap();
        let failed = |applied| Err(BackendError::new(BackendErrorKind::Unavailable, applied, "is down"));
        match mode {
            Mode::Up => Ok(work.await),
            Mode::Down => failed(Applied::No),
            Mode::Stopped => pending().await,
            Mode::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(work.await)
            }
            Mode::Mute => {
                work.await;
                failed(Applied::Unknown)
            }
        }
    }
}

#[async_trait]
impl Backend for TestNode {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }
    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.memory.server_now(name)
    }
    fn submit(&self, submission: Submission) {
        let node = self.clone();
        tokio::spawn(async move {
            let (carried, reply) = Submission::channel(submission.operation().clone());
            let work = async {
                node.memory.submit(carried);
                reply.await
            };
            let reply = tokio::select! {
                reply = node.carry(work) => reply,
                () = submission.unwanted() => return,
            };
            submission.complete(reply.and_then(|reply| reply));
        });
    }
    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.carry(self.memory.inspect(name)).await?
    }
    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        self.carry(self.memory.force_release(r)).await?
    }
}

#[async_trait]
impl Subscriptions for TestNode {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.memory.register_listener(listener)
    }
    async fn subscribe(&self, id: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.carry(self.memory.subscribe(id, name)).await?
    }
    async fn unsubscribe(&self, id: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.carry(self.memory.unsubscribe(id, name)).await?
    }
}

#[async_trait]
impl QuorumNode for TestNode {
    async fn propose(&self, p: Proposal) -> Result<NodeReply<Vote>, BackendError> {
        self.proposals.fetch_add(1, Ordering::SeqCst);
        self.carry(self.memory.propose(p)).await?
    }
    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>> {
        let asked = items.len();
        let answers = self.carry(self.memory.extend(items)).await;
        answers.unwrap_or_else(|error| vec![Err(error); asked])
    }
    async fn heal(&self, h: Healing) -> Result<NodeReply<Healed>, BackendError> {
        self.carry(self.memory.heal(h)).await?
    }
    async fn verify(&self) -> Result<(), BackendError> {
        self.carry(self.memory.verify()).await?
    }
}
