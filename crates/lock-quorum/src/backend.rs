//! A backend over a quorum of stores.

use crate::{
    acquire,
    builder::QuorumBuilder,
    extend::{Item, extend},
    node::Member,
    node_views, release,
    rules::Extended,
    shared::Shared,
    wakes::Wakes,
};
use async_trait::async_trait;
use lock_core::{
    LockError, LockName, Store,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, AsyncBackend, BackendError, BackendErrorKind,
        Capabilities, ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest,
        Renewed, Reply, SubscriberId, Subscriptions, VoteKind, WakeListener,
    },
    clock::UtcTime,
};
use std::sync::{Arc, Weak};

/// A lock store over several independent stores, of which a majority decides each operation.
///
/// The quorum survives the loss of a minority of its nodes. It cannot serve as a run ledger. See [the crate](crate)
/// for an example.
///
/// # Contract
/// Each lease id serves one attempt. An acquire that returns without a grant has used up its lease id, because the
/// quorum undoes the attempt in the background ([`Capabilities::lease_per_attempt`]). Leases last at most
/// [`QuorumBuilder::max_lease`].
///
/// # Cancel safety
/// Dropping an acquire leaves its outcome unknown; the caller must then release the lease. A dropped release continues
/// in the background.
#[derive(Debug, Clone)]
pub struct QuorumBackend {
    shared: Arc<Shared>,
    wakes: Arc<Wakes>,
}

impl QuorumBackend {
    /// Returns a builder for a quorum of these nodes. Votes are reported in the order of the nodes; the order has no
    /// other effect.
    pub fn builder(nodes: impl IntoIterator<Item = Member>) -> QuorumBuilder {
        QuorumBuilder::new(nodes.into_iter().collect())
    }

    /// Checks that every node is an independent master without automatic failover.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the check and changes nothing.
    ///
    /// # Errors
    /// Returns the error of the first node that fails the check, with the replies of all nodes.
    pub async fn verify(&self) -> Result<(), BackendError> {
        let mut failure = None;
        let mut kinds = Vec::new();
        for member in &self.shared.nodes {
            let answer = member.backend.verify().await;
            kinds.push(answer.as_ref().err().map(|error| VoteKind::Failed { error: error.to_string() }));
            failure = failure.or(answer.err().map(|error| (member.name.clone(), error)));
        }
        let Some((name, error)) = failure else { return Ok(()) };
        let message = format!("failed to verify the quorum: node {name} failed the check");
        let votes = self.shared.votes(kinds.into_iter().map(|kind| kind.or(Some(VoteKind::Free))));
        Err(BackendError::new(error.kind(), Applied::No, message).with_source(error).with_votes(votes))
    }
}

impl QuorumBuilder {
    /// Builds the quorum, without any I/O. Logs a warning for an even number of nodes: a quorum with one
    /// fewer node survives just as many failures.
    ///
    /// # Errors
    /// Returns [`InvalidOptions`](lock_core::LockErrorKind::InvalidOptions) for fewer than three nodes, or if `max_lease`
    /// is not longer than 4 s, four times [`MAX_CLOCK_DISTANCE`](crate::MAX_CLOCK_DISTANCE).
    pub fn build(self) -> Result<QuorumBackend, LockError> {
        let shared = Arc::new(self.checked()?);
        let wakes = Wakes::new(&shared);
        Ok(QuorumBackend { shared, wakes })
    }
}

#[async_trait]
impl AsyncBackend for QuorumBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("quorum").with_max_lease(self.shared.max_lease).with_lease_per_attempt()
    }

    fn server_now(&self, _: &LockName) -> Option<UtcTime> {
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
    let message = "failed to extend a lease on a quorum: no answer";
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
