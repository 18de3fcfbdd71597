//! A runtime for background work, separate from the application's runtimes.

use crate::{
    error::{LockError, no_runtime},
    sync::{Handle, Mutex, lock, rank},
};
use std::{
    convert::Infallible,
    fmt,
    future::Future,
    io,
    sync::{Arc, Weak, mpsc},
    thread,
};
use tokio::{runtime::Builder, sync::oneshot};

/// A runtime for the background work of factories and stores: renewals, timeouts, the releases of dropped guards, and
/// connections.
///
/// Few applications need one. By default, factories and stores work in a thread that all of them share, `lock-keeper`,
/// which the first acquire starts; only connections are opened in the runtime that connects. With a worker of its own,
/// a factory does not share that thread, for example because an observer or a store may block it. A store with a worker
/// opens its connections there, so that no task of the application delays them; that costs one thread switch per
/// request.
///
/// Pass it to the store's builder, or to [`LockFactoryBuilder::worker`](crate::LockFactoryBuilder::worker). A factory
/// without a worker uses that of its store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{LockFactory, MemoryBackend, Worker};
///
/// let locks = LockFactory::builder(MemoryBackend::new()).worker(Worker::thread()?).build()?;
/// let guard = locks.named("report")?.acquire_blocking()?;
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
    running: Option<Arc<Running>>,
}

struct Running {
    handle: Handle,
    _ends: oneshot::Sender<Infallible>,
}

/// The keeper of this process, while a factory or a store needs it.
static KEEPER: Mutex<rank::Keeper, Option<Kept>> = Mutex::new(None);

struct Kept {
    process: u32,
    running: Weak<Running>,
}

impl Kept {
    /// Returns the keeper. A forked child has this record, but not the thread.
    fn worker(&self) -> Option<Worker> {
        let running = self.running.upgrade().filter(|_| self.process == std::process::id())?;
        Some(Worker { handle: running.handle.clone(), running: Some(running) })
    }
}

impl Worker {
    /// Starts a thread named `lock-worker` with its own runtime.
    ///
    /// # Errors
    /// The operating system's error if the thread or the runtime cannot be created.
    pub fn thread() -> io::Result<Self> {
        Self::start("lock-worker")
    }

    /// Returns the keeper: the worker that all factories and stores of this process share. Starts it unless it is
    /// running.
    ///
    /// # Errors
    /// The operating system's error if the thread or the runtime cannot be created.
    #[doc(hidden)]
    pub fn keeper() -> io::Result<Self> {
        if let Some(worker) = lock(&KEEPER).as_ref().and_then(Kept::worker) {
            return Ok(worker);
        }
        // Not while the mutex is held: a child that another thread forks meanwhile could never lock it.
        let worker = Self::start("lock-keeper")?;
        let running = worker.running.as_ref().map(Arc::downgrade).unwrap_or_default();
        let mut kept = lock(&KEEPER);
        if let Some(first) = kept.as_ref().and_then(Kept::worker) {
            drop(kept);
            return Ok(first);
        }
        *kept = Some(Kept { process: std::process::id(), running });
        Ok(worker)
    }

    fn start(name: &str) -> io::Result<Self> {
        let (running, stopped) = oneshot::channel::<Infallible>();
        let (report, started) = mpsc::sync_channel(1);
        // The thread builds its runtime. A runtime built here would be dropped here if the thread could not be started,
        // and dropping a runtime in a task panics.
        thread::Builder::new().name(name.to_owned()).spawn(move || {
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
        let running = Arc::new(Running { handle: handle.clone(), _ends: running });
        Ok(Self { handle, running: Some(running) })
    }

    /// Uses a runtime that the application keeps for work that never blocks. It must have timers, and IO for stores
    /// with connections. When it ends, holds are no longer renewed and acquires fail with
    /// [`NoRuntime`](crate::LockErrorKind::NoRuntime).
    #[must_use]
    pub fn on(runtime: Handle) -> Self {
        Self { handle: runtime, running: None }
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
    /// [`NoRuntime`](crate::LockErrorKind::NoRuntime) if the runtime has ended.
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
        value.await.map_err(|_| no_runtime("the worker's runtime has ended"))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("runtime", &self.handle.id()).finish_non_exhaustive()
    }
}
