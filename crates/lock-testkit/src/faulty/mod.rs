//! A backend with injected faults: calls hang, lose replies, arrive late or twice, or wait at a gate.

mod fault;
mod ledger;
mod plan;

#[cfg(test)]
mod tests;

pub use fault::{Fault, Gate, Kept, Op, Phase};
pub use ledger::FaultyLedger;

use crate::seed::Seed;
use async_trait::async_trait;
use lock_core::{
    LockName, Store,
    backend::{
        AcquireRequest, Acquired, AsyncBackend, Backend, BackendError, BackendExt as _, Capabilities,
        ForceReleaseRequest, ForceReleased, Inspected, Operation, Outcome, ReleaseRequest, Released,
        RenewRequest, Renewed, Reply, Submission, SubscriberId, Subscriptions, WakeListener,
    },
    clock::UtcTime,
};
use lock_ledger::RunLedger;
use plan::{Dice, FaultPlan, Plan, carry_out};
use std::{
    fmt,
    sync::{Arc, Weak},
};
use tokio::runtime::Handle;

/// A backend with injected faults. Clones share the plan: pass one to a factory and keep one to control it.
///
/// A call to an operation listed in [`Op`] gets the oldest fault [set for the next
/// call](FaultyBackend::next), otherwise the [permanent](FaultyBackend::always) fault, otherwise a
/// [random](FaultyBackend::random) one. Listeners, `inspect`, `force_release`, `server_now` and
/// `capabilities` are forwarded without faults.
///
/// Dropping a call ends it at its current stage. An operation that has not been applied is not
/// applied later, except with [`Fault::Late`].
#[derive(Clone)]
pub struct FaultyBackend {
    inner: Store,
    plan: Arc<FaultPlan>,
}

impl FaultyBackend {
    /// Wraps `inner`, initially without faults.
    #[must_use]
    pub fn new(inner: impl Into<Store>) -> Self {
        Self { inner: inner.into(), plan: Arc::default() }
    }

    /// Wraps a run ledger, which shares this backend's fault plan.
    #[must_use]
    pub fn ledger(&self, inner: impl RunLedger) -> FaultyLedger {
        FaultyLedger { inner: Arc::new(inner), plan: self.plan.clone() }
    }

    /// Returns the same store with a pipeline: a task on the current runtime executes each submitted operation, with
    /// the faults from this backend's plan, and reports wake-ups from tasks in which requests may be submitted.
    ///
    /// A submission is dropped without a reply if its task is dropped or the backend panics.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    #[must_use]
    pub fn pipelined(&self) -> Store {
        let tasks = Tasks { backend: self.clone(), runtime: Handle::current() };
        self.with_subscriptions(Store::new(Arc::new(tasks)))
    }

    /// Sets the fault for the next call to `op`. Repeated calls queue their faults, one per call,
    /// oldest first.
    pub fn next(&self, op: Op, fault: Fault) {
        self.plan.edit(|plan| plan.of(op).next.push_back(fault));
    }

    /// Sets the faults for the next calls to `op`, one per call.
    pub fn script(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.plan.edit(|plan| plan.of(op).next.extend(faults));
    }

    /// Sets the fault for every call to `op` until [`heal`](FaultyBackend::heal), unless one is set
    /// for the next call.
    pub fn always(&self, op: Op, fault: Fault) {
        self.plan.edit(|plan| plan.of(op).always = Some(fault));
    }

    /// Sets this fault for every call to every operation until [`heal`](FaultyBackend::heal).
    pub fn always_all(&self, fault: Fault) {
        Op::ALL.into_iter().for_each(|op| self.always(op, fault));
    }

    /// Injects a random fault into each future call with the given probability, from 0 to 1. The
    /// seed determines the faults: the same calls in the same order get the same faults.
    ///
    /// [`Fault::Refuse`], which clients treat as final, and [`Fault::ApplyThenPanic`] are never drawn.
    /// Subscriptions never get [`Fault::Late`], because stores keep them in order.
    pub fn random(&self, seed: impl Into<Seed>, probability: f64) {
        let seed = seed.into();
        self.plan.edit(|plan| plan.dice = Some(Dice::new(seed, probability)));
    }

    /// Returns the seed of the random faults, if they are enabled.
    #[must_use]
    pub fn seed(&self) -> Option<Seed> {
        self.plan.edit(|plan| plan.dice.as_ref().map(Dice::seed))
    }

    /// Removes all faults. Hanging calls keep hanging, and gates stay closed.
    pub fn heal(&self) {
        self.plan.edit(Plan::clear);
    }

    /// Sets a gate at which the next call to `op` stops. Repeated calls queue their gates, one per
    /// call, oldest first.
    #[must_use = "a gate opens when it is dropped"]
    pub fn gate(&self, op: Op, phase: Phase) -> Gate {
        let gate = Gate::new();
        self.plan.edit(|plan| plan.of(op).gates(phase).push_back(gate.bar()));
        gate
    }

    /// Returns the number of calls to `op` that have started.
    #[must_use]
    pub fn calls(&self, op: Op) -> usize {
        self.plan.counts.calls(op)
    }

    /// Returns the number of times `op` reached the inner backend.
    #[must_use]
    pub fn applied(&self, op: Op) -> usize {
        self.plan.counts.applied(op)
    }

    /// Returns the number of calls in progress across all operations.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        Op::ALL.into_iter().map(|op| self.plan.counts.in_flight(op)).sum()
    }

    /// Returns the highest number of concurrent calls to `op`.
    #[must_use]
    pub fn most_in_flight(&self, op: Op) -> usize {
        self.plan.counts.most(op)
    }

    /// Adds the subscriptions of the inner store, if it pushes wake-ups, with planned faults.
    fn with_subscriptions(&self, store: Store) -> Store {
        match self.inner.subscriptions.clone() {
            Some(inner) => store.pushing(Arc::new(FaultySubscriptions { inner, plan: self.plan.clone() })),
            None => store,
        }
    }
}

impl fmt::Debug for FaultyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyBackend")
            .field("inner", &self.inner)
            .field("seed", &self.seed())
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl AsyncBackend for FaultyBackend {
    fn capabilities(&self) -> Capabilities {
        self.inner.backend.capabilities()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.inner.backend.server_now(name)
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let acquire = || {
            let (inner, request) = (self.inner.backend.clone(), request.clone());
            async move { inner.acquire(request).await }
        };
        carry_out(&self.plan, Op::Acquire, acquire, Err).await
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let renew = || {
            let (inner, items) = (self.inner.backend.clone(), items.clone());
            async move { inner.renew(items).await }
        };
        let every = |error: BackendError| items.iter().map(|_| Err(error.clone())).collect();
        carry_out(&self.plan, Op::Renew, renew, every).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let release = || {
            let (inner, request) = (self.inner.backend.clone(), request.clone());
            async move { inner.release(request).await }
        };
        carry_out(&self.plan, Op::Release, release, Err).await
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.inner.backend.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.inner.backend.force_release(request).await
    }
}

/// The subscriptions of a [`FaultyBackend`] whose store pushes wake-ups.
struct FaultySubscriptions {
    inner: Arc<dyn Subscriptions>,
    plan: Arc<FaultPlan>,
}

impl fmt::Debug for FaultySubscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultySubscriptions").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Subscriptions for FaultySubscriptions {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.inner.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let subscribe = || {
            let (inner, name) = (self.inner.clone(), name.clone());
            async move { inner.subscribe(subscriber, name).await }
        };
        carry_out(&self.plan, Op::Subscribe, subscribe, Err).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        let unsubscribe = || {
            let (inner, name) = (self.inner.clone(), name.clone());
            async move { inner.unsubscribe(subscriber, name).await }
        };
        carry_out(&self.plan, Op::Unsubscribe, unsubscribe, Err).await
    }
}

impl From<FaultyBackend> for Store {
    fn from(faulty: FaultyBackend) -> Self {
        faulty.with_subscriptions(Self::polling(Arc::new(faulty.clone())))
    }
}

/// A [`FaultyBackend`] with a task for each operation, as a connection has that answers later.
#[derive(Debug)]
struct Tasks {
    backend: FaultyBackend,
    runtime: Handle,
}

#[async_trait]
impl Backend for Tasks {
    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities().with_wakes_in_task()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.backend.server_now(name)
    }

    fn submit(&self, submission: Submission) {
        let backend = self.backend.clone();
        self.runtime.spawn(async move {
            let reply = match submission.operation().clone() {
                Operation::Acquire(request) => backend.acquire(request).await.map(outcome),
                Operation::Release(request) => backend.release(request).await.map(outcome),
                Operation::Renew(request) => match backend.renew(vec![request]).await.pop() {
                    Some(reply) => reply.map(outcome),
                    None => return,
                },
            };
            submission.complete(reply);
        });
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.backend.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.backend.force_release(request).await
    }
}

fn outcome(reply: Reply<impl Into<Outcome>>) -> Reply<Outcome> {
    reply.map(Into::into)
}
