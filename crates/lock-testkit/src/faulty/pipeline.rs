//! The faulty backend with a task for each operation, as a connection has that answers later.

use super::FaultyBackend;
use async_trait::async_trait;
use lock_core::{
    LockName, Store,
    backend::{
        AsyncBackend as _, Backend, BackendError, Capabilities, ForceReleaseRequest, ForceReleased,
        Inspected, Operation, Outcome, Reply, Submission,
    },
    clock::UtcTime,
};
use std::sync::Arc;
use tokio::runtime::Handle;

impl FaultyBackend {
    /// Returns the same store with a pipeline: a task on the current runtime executes each submitted operation, with the
    /// faults from this backend's plan, and reports wake-ups from tasks in which requests may be submitted.
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
}

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
