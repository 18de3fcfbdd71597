//! The faulty backend as a pipeline, with the same operations and faults.

use super::FaultyBackend;
use lock_core::{
    Store,
    backend::{Backend, Operation, Pipeline},
};
use std::sync::Arc;
use tokio::runtime::Handle;

impl FaultyBackend {
    /// Returns the same store with a pipeline. A task on the current runtime executes each submitted
    /// operation, with the faults from this backend's plan.
    ///
    /// A completion is dropped without a reply if its task is dropped or the backend panics.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    #[must_use]
    pub fn pipelined(&self) -> Store {
        let pipeline = Tasks { backend: self.clone(), runtime: Handle::current() };
        Store::from(self.clone()).pipelined(Arc::new(pipeline))
    }
}

#[derive(Debug)]
struct Tasks {
    backend: FaultyBackend,
    runtime: Handle,
}

impl Pipeline for Tasks {
    fn submit(&self, operation: Operation) {
        let backend = self.backend.clone();
        self.runtime.spawn(async move {
            match operation {
                Operation::Acquire(request, completion) => {
                    completion.complete(backend.acquire(request).await)
                }
                Operation::Release(request, completion) => {
                    completion.complete(backend.release(request).await)
                }
                Operation::Renew(request, completion) => {
                    if let Some(answer) = backend.renew(vec![request]).await.pop() {
                        completion.complete(answer);
                    }
                }
                other => panic!("the faulty backend does not support {other:?}"),
            }
        });
    }
}
