//! The same operations and faults through a pipeline.

use super::FaultyBackend;
use lock_core::{
    Store,
    backend::{Backend, Operation, Pipeline},
};
use std::sync::Arc;
use tokio::runtime::Handle;

impl FaultyBackend {
    /// The same store with a pipeline: each operation that is submitted is carried out by a task of the current runtime,
    /// with the faults that are planned here.
    ///
    /// A completion is dropped without an answer when the task is, and when the backend panics.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
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
                other => panic!("the faulty backend knows no {other:?}"),
            }
        });
    }
}
