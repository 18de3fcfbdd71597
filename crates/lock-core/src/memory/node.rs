//! The in-memory store as a node of a quorum.

use super::{MemoryBackend, shelf};
use crate::{
    backend::BackendError,
    quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, QuorumNode, Vote},
    sync::lock,
};
use async_trait::async_trait;

#[async_trait]
impl QuorumNode for MemoryBackend {
    async fn propose(&self, p: Proposal) -> Result<NodeReply<Vote>, BackendError> {
        let mut shelf = lock(&self.inner.shelf);
        let now = self.inner.now();
        let (age, retention) = (shelf.age(now), p.retention.unless(Some(shelf::RETENTION)));
        let outcome = shelf.slot_or_new(&p.name, now, |slot| slot.propose(now, age, &p, retention));
        Ok(NodeReply { now, age, outcome })
    }

    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>> {
        let mut shelf = lock(&self.inner.shelf);
        let now = self.inner.now();
        let age = shelf.age(now);
        let extend = |item: &Extension| shelf.slot(&item.name, |slot| slot.extend(now, item));
        items.iter().map(extend).map(|outcome| Ok(NodeReply { now, age, outcome })).collect()
    }

    async fn heal(&self, h: Healing) -> Result<NodeReply<Healed>, BackendError> {
        let mut shelf = lock(&self.inner.shelf);
        let now = self.inner.now();
        let (age, retention) = (shelf.age(now), h.retention.unless(Some(shelf::RETENTION)));
        let outcome = shelf.slot_or_new(&h.name, now, |slot| slot.heal(now, &h, retention));
        Ok(NodeReply { now, age, outcome })
    }

    async fn verify(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
