//! A runtime for background work, separate from the application's runtimes.

use crate::{
    error::{LockError, LockErrorKind},
    sync::Handle,
};
use std::{
    convert::Infallible,
    fmt,
    future::Future,
    io,
    sync::{Arc, mpsc},
    thread,
};
use tokio::{runtime::Builder, sync::oneshot};

/// A runtime for the background work of factories and stores: their watchdogs, timers and connections.
///
/// Without one, a factory renews its leases in the runtimes in which it is used, and a connection lives in
/// the runtime that opened it. An application whose tasks compute for a long time without an `.await` then delays
/// renewals, and loses its locks if it delays them past the end of a lease. With a worker, renewals and
/// connections do not depend on the application's tasks. It also lets threads without a runtime [acquire
/// locks](crate::Lock::acquire_blocking).
///
/// Pass it to the store's builder. A factory uses its store's worker, unless
/// [`LockFactoryBuilder::worker`](crate::LockFactoryBuilder::worker) gives it another one. The cost is one thread
/// switch for each request to the store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{LockFactory, MemoryBackend, Worker};
///
/// let locks = LockFactory::builder(MemoryBackend::new()).worker(Worker::thread()?).build()?;
/// let guard = locks.named("report")?.acquire_blocking()?; // in a thread without a runtime
/// guard.release_blocking()?;
/// # Ok(()) }
/// ```
///
/// Clones refer to the same runtime. The thread of [`Worker::thread`] ends, in the background, when the last of its
/// clones, factories and stores is dropped and the work of those factories is done.
#[derive(Clone)]
pub struct Worker {
    handle: Handle,
    /// Keeps the thread running, if this worker has its own.
    _running: Option<Arc<oneshot::Sender<Infallible>>>,
}

impl Worker {
    /// Starts a thread named `lock-worker` with its own runtime.
    ///
    /// # Errors
    /// The operating system's error if the thread or the runtime cannot be created.
    pub fn thread() -> io::Result<Self> {
        let (running, stopped) = oneshot::channel::<Infallible>();
        let (report, started) = mpsc::sync_channel(1);
        // The thread builds its runtime. A runtime built here would be dropped here if the thread could not be started,
        // and dropping a runtime in a task panics.
        thread::Builder::new().name("lock-worker".to_owned()).spawn(move || {
            let (handle, runtime) = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => (Ok(runtime.handle().clone()), Some(runtime)),
                Err(error) => (Err(error), None),
            };
            if let (Ok(()), Some(runtime)) = (report.send(handle), runtime) {
                // Ends, with an error, when the sender is dropped.
                let _ = runtime.block_on(stopped);
            }
        })?;
        let handle = started.recv().map_err(io::Error::other)??;
        Ok(Self { handle, _running: Some(Arc::new(running)) })
    }

    /// Uses a runtime that the application keeps for work that never blocks. It must have timers, and IO for stores
    /// with connections. When it ends, holds are no longer renewed and acquires fail with
    /// [`NoRuntime`](LockErrorKind::NoRuntime).
    #[must_use]
    pub fn on(runtime: Handle) -> Self {
        Self { handle: runtime, _running: None }
    }

    /// Returns the runtime, for stores that open their connections there.
    #[doc(hidden)]
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future in this worker's runtime, for stores that open their connections there.
    ///
    /// # Errors
    /// [`LockErrorKind::NoRuntime`] if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work` as well.
    #[doc(hidden)]
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, LockError> {
        let (mut done, value) = oneshot::channel();
        self.handle.spawn(async move {
            let value = tokio::select! {
                value = work => Some(value),
                () = done.closed() => None,
            };
            // The receiver may be gone.
            let _ = value.map(|value| done.send(value));
        });
        let ended = |_| LockError::new(LockErrorKind::NoRuntime).detail("the worker's runtime has ended");
        value.await.map_err(ended)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("runtime", &self.handle.id()).finish_non_exhaustive()
    }
}
