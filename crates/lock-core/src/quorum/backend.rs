//! The quorum as a backend.

use super::{
    acquire,
    builder::QuorumBuilder,
    extend::{Item, extend},
    member::Member,
    node::Extended,
    node_views, release,
    shared::Shared,
    wakes::Wakes,
};
use crate::{
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendError, BackendErrorKind,
        Capabilities, ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest,
        Renewed, Reply, Store, SubscriberId, Subscriptions, VoteKind, WakeListener,
    },
    error::LockError,
    name::LockName,
    time::ServerTime,
};
use async_trait::async_trait;
use std::sync::{Arc, Weak};

/// A store of locks over several independent stores, of which a majority decides.
///
/// It survives the loss of a minority of its nodes. It is no run ledger. See [the module](super) for an example.
///
/// # Contract
/// A lease id serves one attempt: an acquire that is answered without a grant has used its id up, since the quorum undoes the
/// attempt in the background ([`Capabilities::lease_per_attempt`]). Leases are bounded by
/// [`QuorumBuilder::max_lease`].
///
/// # Cancel safety
/// An acquire that is dropped has an unknown outcome, and its caller releases the lease. A release that is dropped goes on in
/// the background, in the runtime that polled it.
#[derive(Debug, Clone)]
pub struct QuorumBackend {
    shared: Arc<Shared>,
    wakes: Arc<Wakes>,
}

impl QuorumBackend {
    /// A quorum of these nodes; see [`QuorumBuilder`]. The order of the nodes does not matter, and is the order of votes.
    pub fn builder(nodes: impl IntoIterator<Item = Member>) -> QuorumBuilder {
        QuorumBuilder::new(nodes.into_iter().collect())
    }

    /// Checks that every node may be one: a master of its own, without automatic failover.
    ///
    /// # Cancel safety
    /// Dropping the future ends the check, and changes nothing.
    ///
    /// # Errors
    /// The failure of the first node that may not, with the answers of all nodes.
    pub async fn verify(&self) -> Result<(), BackendError> {
        let mut failure = None;
        let mut kinds = Vec::new();
        for member in &self.shared.nodes {
            let answer = member.backend.verify().await;
            kinds.push(answer.as_ref().err().map(|error| VoteKind::Failed { error: error.to_string() }));
            failure = failure.or(answer.err().map(|error| (member.name.clone(), error)));
        }
        let Some((name, error)) = failure else { return Ok(()) };
        let message = format!("checked the quorum: node {name} cannot be a node");
        let votes = self.shared.votes(kinds.into_iter().map(|kind| kind.or(Some(VoteKind::Free))));
        Err(BackendError::new(error.kind(), Applied::No, message).with_source(error).with_votes(votes))
    }
}

impl QuorumBuilder {
    /// Makes the quorum, without any IO. An even number of nodes is accepted with a warning: the node that is one more
    /// survives no further failure.
    ///
    /// # Errors
    /// [`InvalidOptions`](crate::LockErrorKind::InvalidOptions) for fewer than three nodes, and for a longest lease that does
    /// not exceed 4 s, four times the distance that clocks may have.
    pub fn build(self) -> Result<QuorumBackend, LockError> {
        let shared = Arc::new(self.checked()?);
        let wakes = Wakes::new(&shared);
        Ok(QuorumBackend { shared, wakes })
    }
}

#[async_trait]
impl Backend for QuorumBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("quorum").with_max_lease(self.shared.max_lease).with_lease_per_attempt()
    }

    fn server_now(&self, _: &LockName) -> Option<ServerTime> {
        Some(self.shared.quorum_time(self.shared.clock.now()))
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let depth = match request.mode {
            AcquireMode::New { reserve, floor } => {
                return acquire::acquire(&self.shared, request, reserve, floor).await;
            }
            AcquireMode::Reenter { depth } => Some(depth),
        };
        let AcquireRequest { name, lease, duration, not_after, .. } = request;
        let item = Item { name, lease, duration, not_after, depth };
        let answer = extend(&self.shared, vec![item]).await.pop().unwrap_or_else(|| Err(unanswered()));
        answer.map(|reply| {
            reply.map(|extended| match extended {
                Extended::Extended => Acquired::Reentered,
                Extended::Gone => Acquired::Gone,
                Extended::Late => Acquired::Late,
            })
        })
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let item = |r: RenewRequest| {
            let RenewRequest { name, lease, duration, not_after } = r;
            Item { name, lease, duration, not_after, depth: None }
        };
        let answers = extend(&self.shared, items.into_iter().map(item).collect()).await;
        let renewed = |extended| match extended {
            Extended::Extended => Renewed::Renewed,
            Extended::Gone => Renewed::Gone,
            Extended::Late => Renewed::Late,
        };
        answers.into_iter().map(|answer| answer.map(|reply| reply.map(renewed))).collect()
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        match request.depth_left {
            0 => release::free(&self.shared, request).await,
            _ => release::lower(&self.shared, request).await,
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        node_views::inspect(&self.shared, name).await
    }

    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        node_views::force(&self.shared, r).await
    }
}

fn unanswered() -> BackendError {
    let message = "extended a lease on a quorum: no answer";
    BackendError::new(BackendErrorKind::Protocol, Applied::Unknown, message)
}

#[async_trait]
impl Subscriptions for QuorumBackend {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.wakes.register(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.wakes.subscribe(subscriber, name).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.wakes.unsubscribe(subscriber, name).await
    }
}

impl From<QuorumBackend> for Store {
    fn from(quorum: QuorumBackend) -> Self {
        Self::from(Arc::new(quorum))
    }
}
