//! A backend over a quorum of stores, its builder, and inspections, which a majority decides.

use crate::{
    acquire,
    extend::{Item, extend},
    gather::{Sent, ask_all},
    node::Member,
    release,
    round::majority,
    rules::{Extended, MAX_CLOCK_DISTANCE},
    shared::{GRACE, Shared, unknown_reply},
    wakes::Wakes,
};
use async_trait::async_trait;
use lock_core::{
    __private::Random,
    LockError, LockName, OptionsError, Store,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, AsyncBackend, BackendError, BackendErrorKind,
        Capabilities, ForceReleaseRequest, ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest,
        Renewed, Reply, StoredHold, SubscriberId, Subscriptions, VoteKind, WakeListener,
    },
    clock::{BootClock, Clock, Moment, UtcTime},
};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::task::yield_now;

/// Default of [`QuorumBuilder::max_lease`].
const MAX_LEASE: Duration = Duration::from_secs(30);
/// The smallest quorum that survives the loss of a node.
const MIN_NODES: usize = 3;

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
        QuorumBuilder {
            nodes: nodes.into_iter().collect(),
            max_lease: MAX_LEASE,
            clock: None,
            random: Random::default(),
        }
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

/// A builder for a [`QuorumBackend`].
#[derive(Debug)]
pub struct QuorumBuilder {
    nodes: Vec<Member>,
    max_lease: Duration,
    clock: Option<Arc<dyn Clock>>,
    random: Random,
}

impl QuorumBuilder {
    /// Sets the longest lease that the quorum accepts; 30 s by default. Requests for longer leases fail.
    ///
    /// All clients must use the same value. A node that lost its data does not vote for this long; by then, every lease
    /// that it may have forgotten has expired. A new quorum waits this long once, unless its nodes are
    /// [durable](Member::durable).
    #[must_use]
    pub fn max_lease(mut self, lease: Duration) -> Self {
        self.max_lease = lease;
        self
    }

    /// Replaces the clock. The default is the boot-time clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Replaces the source of random numbers, for simulations.
    #[cfg(feature = "__internal")]
    #[doc(hidden)]
    #[must_use]
    pub fn random(mut self, number: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        self.random = Random::Given(number);
        self
    }

    /// Builds the quorum, without any I/O. Logs a warning for an even number of nodes: a quorum with one
    /// fewer node survives just as many failures.
    ///
    /// # Errors
    /// Returns [`InvalidOptions`](lock_core::LockErrorKind::InvalidOptions) for fewer than three nodes, or if
    /// `max_lease` is not longer than 4 s, four times [`MAX_CLOCK_DISTANCE`](crate::MAX_CLOCK_DISTANCE).
    pub fn build(self) -> Result<QuorumBackend, LockError> {
        let nodes = self.nodes.len();
        if nodes < MIN_NODES {
            let text = format!(
                "a quorum of {nodes} nodes cannot tolerate the loss of one: use at least {MIN_NODES}"
            );
            return Err(OptionsError::new(text).into());
        }
        let least = MAX_CLOCK_DISTANCE * 4;
        if self.max_lease <= least {
            let least = least + Duration::from_millis(1);
            return Err(OptionsError::new(format!("`max_lease` is too short: use at least {least:?}")).into());
        }
        if nodes.is_multiple_of(2) {
            tracing::warn!(
                nodes,
                "the quorum has an even number of nodes; it would tolerate just as many failures with one fewer node"
            );
        }
        let clock = self.clock.unwrap_or_else(|| Arc::new(BootClock::new()));
        let shared = Arc::new(Shared::new(self.nodes, clock, self.max_lease, self.random));
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
        // A task continues it where the connections are: from here, each request would wake their thread.
        yield_now().await;
        let depth = match request.mode {
            AcquireMode::New { reserve, floor } => {
                return acquire::acquire(&self.shared, request, reserve, floor).await;
            }
            AcquireMode::Reenter { depth } => Some(depth),
            AcquireMode::Permit(_) => return Err(BackendError::without_permits("a quorum")),
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
        yield_now().await;
        match request.depth_left {
            0 => release::free(&self.shared, request).await,
            _ => release::lower(&self.shared, request).await,
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        inspect(&self.shared, name).await
    }

    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        release::force(&self.shared, r).await
    }
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

fn unanswered() -> BackendError {
    let message = "failed to extend a lease on a quorum: no answer";
    BackendError::new(BackendErrorKind::Protocol, Applied::Unknown, message)
}

/// Returns the hold that a majority of the nodes has stored, if any.
async fn inspect(shared: &Shared, name: LockName) -> Result<Reply<Inspected>, BackendError> {
    let mut coming = ask_all(shared, |_, node| {
        let name = name.clone();
        async move { node.inspect(name).await }
    });
    let mut views = Views { kinds: vec![None; shared.nodes.len()], holds: Vec::new() };
    let mut until = Moment::NEVER;
    while !views.is_decided() {
        let Some(Sent { node, at, answer }) = coming.next(&*shared.clock, until).await else { break };
        if let Ok(reply) = &answer {
            shared.learn(node, at, reply.now);
        }
        views.hear(node, answer.map(|reply| reply.outcome));
        if views.answered() >= shared.majority() {
            until = until.min(shared.clock.now() + GRACE);
        }
    }
    let votes = shared.votes(views.kinds.iter().cloned());
    match views.answered() >= shared.majority() {
        true => Ok(shared.reply(views.outcome(), votes)),
        false => Err(shared.no_majority("answered", Applied::No, votes)),
    }
}

/// The replies of the nodes to an inspection.
struct Views {
    kinds: Vec<Option<VoteKind>>,
    holds: Vec<StoredHold>,
}

impl Views {
    fn hear(&mut self, node: usize, answer: Result<Inspected, BackendError>) {
        self.kinds[node] = Some(match answer {
            Ok(Inspected::Free) => VoteKind::Free,
            Ok(Inspected::Held(hold)) => {
                let lease = hold.lease.clone();
                self.holds.push(hold);
                VoteKind::Held { lease }
            }
            Ok(_) => unknown_reply(),
            Err(error) => VoteKind::Failed { error: error.to_string() },
        });
    }

    fn answered(&self) -> usize {
        let is_answer = |kind: &&VoteKind| matches!(kind, VoteKind::Free | VoteKind::Held { .. });
        self.kinds.iter().flatten().filter(is_answer).count()
    }

    /// Returns the stored holds of this lease, one for each node that has the lease.
    fn held_by<'a>(&'a self, lease: &'a str) -> impl Iterator<Item = &'a StoredHold> {
        self.holds.iter().filter(move |hold| hold.lease == lease)
    }

    fn most_held(&self) -> usize {
        self.holds.iter().map(|hold| self.held_by(&hold.lease).count()).max().unwrap_or(0)
    }

    /// Returns `true` if no further reply can change the outcome.
    fn is_decided(&self) -> bool {
        let needed = majority(self.kinds.len());
        let waiting = self.kinds.iter().filter(|kind| kind.is_none()).count();
        let most = self.most_held();
        most >= needed || (self.answered() >= needed && most + waiting < needed) || waiting == 0
    }

    fn outcome(&self) -> Inspected {
        let needed = majority(self.kinds.len());
        let holder = self.holds.iter().find(|hold| self.held_by(&hold.lease).count() >= needed);
        let Some(holder) = holder else { return Inspected::Free };
        let mut remaining: Vec<_> = self.held_by(&holder.lease).map(|hold| hold.remaining).collect();
        remaining.sort_unstable();
        let depth = self.held_by(&holder.lease).map(|hold| hold.depth).max().unwrap_or(holder.depth);
        // A majority keeps the lease for at least this long.
        Inspected::Held(StoredHold {
            lease: holder.lease.clone(),
            depth,
            remaining: remaining[remaining.len() - needed],
        })
    }
}
