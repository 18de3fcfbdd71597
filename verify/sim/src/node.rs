//! The backend of a simulated process as a quorum node. Every call is a message to one store.

use crate::{
    backend::{SimBackend, checked, unexpected},
    message::{Answer, Request},
};
use async_trait::async_trait;
use lock_core::{
    LockName,
    backend::{
        AsyncBackend as _, Backend, BackendError, Capabilities, ForceReleaseRequest, ForceReleased,
        Inspected, Operation, Outcome, Reply, Submission, SubscriberId, Subscriptions, WakeListener,
    },
    clock::UtcTime,
    quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, QuorumNode, Vote},
};
use std::sync::Weak;

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
