//! The backend of a simulated process, also as a node of a quorum. Every call is a message to one store.

use crate::{
    message::{Answer, Request, failure},
    plan::{NODES, Quorum},
    world::World,
};
use async_trait::async_trait;
use lock_core::{
    LockName,
    backend::{
        AcquireRequest, Acquired, Applied, AsyncBackend, Backend, BackendError, Capabilities,
        ForceReleaseRequest, ForceReleased, Inspected, Operation, Outcome, ReleaseRequest, Released,
        RenewRequest, Renewed, Reply, Submission, SubscriberId, Subscriptions, WakeListener,
    },
    clock::{Clock, UtcTime},
};
use lock_quorum::{
    Extended, Extension, Healed, Healing, Member, NodeReply, Proposal, QuorumBackend, QuorumNode, Vote,
};
use lock_testkit::planted::PlantedBug;
use std::sync::{Arc, Weak};

#[derive(Debug, Clone)]
pub(crate) struct SimBackend {
    pub(crate) world: Arc<World>,
    pub(crate) link: usize,
    pub(crate) bug: Option<PlantedBug>,
}

impl SimBackend {
    async fn ask(&self, request: Request) -> Answer {
        match self.world.send(self.link, request) {
            Ok(answer) => answer,
            Err(coming) => match coming.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            },
        }
    }

    pub(crate) fn now(&self) -> UtcTime {
        self.world.with(|state| state.links[self.link].estimate()).unwrap_or_default()
    }
}

pub(crate) fn checked(answer: Answer) -> Result<Answer, BackendError> {
    match answer {
        Answer::Failed(applied) => Err(failure(applied)),
        answer => Ok(answer),
    }
}

fn unexpected() -> BackendError {
    failure(Applied::Unknown)
}

/// Returns the reply to an acquire.
pub(crate) fn acquired(answer: Answer) -> Result<Reply<Acquired>, BackendError> {
    match checked(answer)? {
        Answer::Acquired(reply) => Ok(reply),
        _ => Err(unexpected()),
    }
}

/// Returns the replies to this many renewals.
pub(crate) fn renewed(asked: usize, answer: Answer) -> Vec<Result<Reply<Renewed>, BackendError>> {
    match checked(answer) {
        Ok(Answer::Renewed(replies)) => replies.into_iter().map(Ok).collect(),
        Ok(_) => (0..asked).map(|_| Err(unexpected())).collect(),
        Err(error) => (0..asked).map(|_| Err(error.clone())).collect(),
    }
}

/// Returns the reply to a release.
pub(crate) fn released(bug: Option<PlantedBug>, answer: Answer) -> Result<Reply<Released>, BackendError> {
    match checked(answer)? {
        Answer::Released(Reply { now, outcome, .. }) => {
            Ok(Reply::new(now, PlantedBug::released(bug, outcome)))
        }
        _ => Err(unexpected()),
    }
}

#[async_trait]
impl AsyncBackend for SimBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("sim")
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
        self.world.with(|state| state.links[self.link].estimate())
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        acquired(self.ask(Request::Acquire(request)).await)
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let asked = items.len();
        self.world.with(|state| {
            items.iter().for_each(|item| state.oracle.renewal_submitted(state.now, item.lease));
        });
        let answers = renewed(asked, self.ask(Request::Renew(items)).await);
        let now = self.now();
        answers.into_iter().map(|answer| PlantedBug::renewed(self.bug, now, answer)).collect()
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        if self.bug == Some(PlantedBug::DropsReleases) && request.depth_left == 0 {
            return Ok(Reply::new(self.now(), Released::Released { listeners: None }));
        }
        let second = (self.bug == Some(PlantedBug::HidesResends)).then(|| request.clone());
        let first = self.ask(Request::Release(request)).await;
        let answer = match second {
            Some(again) if matches!(first, Answer::Failed(_)) => self.ask(Request::Release(again)).await,
            _ => first,
        };
        released(self.bug, answer)
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        match checked(self.ask(Request::Inspect(name)).await)? {
            Answer::Inspected(reply) => Ok(reply),
            _ => Err(unexpected()),
        }
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        match checked(self.ask(Request::Force(request)).await)? {
            Answer::ForceReleased(reply) => Ok(reply),
            _ => Err(unexpected()),
        }
    }
}

#[async_trait]
impl Subscriptions for SimBackend {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.world.with(|state| state.links[self.link].signals = Some(listener));
        SubscriberId::new(self.link as u64)
    }

    async fn subscribe(&self, _: SubscriberId, name: LockName) -> Result<(), BackendError> {
        checked(self.ask(Request::Watch(name)).await).map(drop)
    }

    async fn unsubscribe(&self, _: SubscriberId, name: LockName) -> Result<(), BackendError> {
        checked(self.ask(Request::Unwatch(name)).await).map(drop)
    }
}

/// The link of a process to one store of a quorum.
#[derive(Debug)]
pub(crate) struct SimNode(pub(crate) SimBackend);

#[async_trait]
impl Backend for SimNode {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.0.server_now(name)
    }

    /// A quorum only releases in this way; its other operations are proposals and extensions.
    fn submit(&self, submission: Submission) {
        let store = self.0.clone();
        tokio::spawn(async move {
            let Operation::Release(request) = submission.operation().clone() else {
                panic!("{submission:?} is no operation of a quorum");
            };
            let released = tokio::select! {
                released = store.release(request) => released,
                () = submission.unwanted() => return,
            };
            submission.complete(released.map(|reply| reply.map(Outcome::from)));
        });
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.0.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.0.force_release(request).await
    }
}

#[async_trait]
impl Subscriptions for SimNode {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.0.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.0.subscribe(subscriber, name).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.0.unsubscribe(subscriber, name).await
    }
}

#[async_trait]
impl QuorumNode for SimNode {
    async fn propose(&self, proposal: Proposal) -> Result<NodeReply<Vote>, BackendError> {
        match checked(self.0.ask(Request::Propose(proposal)).await)? {
            Answer::Voted(reply) => Ok(reply),
            _ => Err(unexpected()),
        }
    }

    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>> {
        let asked = items.len();
        match checked(self.0.ask(Request::Extend(items)).await) {
            Ok(Answer::Extended(replies)) => replies.into_iter().map(Ok).collect(),
            Ok(_) => (0..asked).map(|_| Err(unexpected())).collect(),
            Err(error) => (0..asked).map(|_| Err(error.clone())).collect(),
        }
    }

    async fn heal(&self, healing: Healing) -> Result<NodeReply<Healed>, BackendError> {
        match checked(self.0.ask(Request::Heal(healing)).await)? {
            Answer::Healed(reply) => Ok(reply),
            _ => Err(unexpected()),
        }
    }

    async fn verify(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Quorum {
    /// Returns the quorum for one life of a process, whose links start with this one.
    pub(crate) fn backend(
        self,
        world: &Arc<World>,
        first: usize,
        bug: Option<PlantedBug>,
        clock: Arc<dyn Clock>,
        random: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> QuorumBackend {
        let durable = self.durable || bug == Some(PlantedBug::NoQuarantine);
        let member = |node: usize| {
            let backend = SimNode(SimBackend { world: world.clone(), link: first + node, bug });
            let member = Member::new(format!("node-{node}"), backend);
            if durable { member.durable() } else { member }
        };
        let builder = QuorumBackend::builder((0..NODES).map(member)).max_lease(self.max_lease);
        let quorum = builder.clock(clock).random(Arc::new(random)).build();
        quorum.expect("three nodes and a longest lease of some seconds")
    }
}
