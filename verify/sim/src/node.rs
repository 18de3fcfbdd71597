//! The backend of a simulated process as a quorum node. Every call is a message to one store.

use crate::{
    backend::{SimBackend, checked, unexpected},
    message::{Answer, Request},
};
use async_trait::async_trait;
use lock_core::{
    backend::BackendError,
    quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, QuorumNode, Vote},
};

#[async_trait]
impl QuorumNode for SimBackend {
    async fn propose(&self, proposal: Proposal) -> Result<NodeReply<Vote>, BackendError> {
        match checked(self.ask(Request::Propose(proposal)).await)? {
            Answer::Voted(reply) => Ok(reply),
            _ => Err(unexpected()),
        }
    }

    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>> {
        let asked = items.len();
        match checked(self.ask(Request::Extend(items)).await) {
            Ok(Answer::Extended(replies)) => replies.into_iter().map(Ok).collect(),
            Ok(_) => (0..asked).map(|_| Err(unexpected())).collect(),
            Err(error) => (0..asked).map(|_| Err(error.clone())).collect(),
        }
    }

    async fn heal(&self, healing: Healing) -> Result<NodeReply<Healed>, BackendError> {
        match checked(self.ask(Request::Heal(healing)).await)? {
            Answer::Healed(reply) => Ok(reply),
            _ => Err(unexpected()),
        }
    }

    async fn verify(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
