//! The in-memory store as a node of a quorum.

use super::{MemoryBackend, slot_map};
use crate::{
    backend::BackendError,
    quorum::{Extended, Extension, Healed, Healing, NodeReply, Proposal, QuorumNode, Vote},
    sync::lock,
};
use async_trait::async_trait;

#[async_trait]
impl QuorumNode for MemoryBackend {
    async fn propose(&self, p: Proposal) -> Result<NodeReply<Vote>, BackendError> {
        let mut slots = lock(&self.inner.slots);
        let now = self.inner.now();
        let (age, retention) = (slots.age(now), p.retention.unless(Some(slot_map::RETENTION)));
        let outcome = slots.slot_or_new(&p.name, now, |slot| slot.propose(now, age, &p, retention));
        Ok(NodeReply { now, age, outcome })
    }

    async fn extend(&self, items: Vec<Extension>) -> Vec<Result<NodeReply<Extended>, BackendError>> {
        let mut slots = lock(&self.inner.slots);
        let now = self.inner.now();
        let age = slots.age(now);
        let extend = |item: &Extension| slots.slot(&item.name, |slot| slot.extend(now, item));
        items.iter().map(extend).map(|outcome| Ok(NodeReply { now, age, outcome })).collect()
    }

    async fn heal(&self, h: Healing) -> Result<NodeReply<Healed>, BackendError> {
        let mut slots = lock(&self.inner.slots);
        let now = self.inner.now();
        let (age, retention) = (slots.age(now), h.retention.unless(Some(slot_map::RETENTION)));
        let outcome = slots.slot_or_new(&h.name, now, |slot| slot.heal(now, &h, retention));
        Ok(NodeReply { now, age, outcome })
    }

    async fn verify(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
