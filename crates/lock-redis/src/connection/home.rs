//! The runtimes of a store: its connections live in the runtime that connects, where their requests need no other
//! thread, and everything else in the keeper. If that runtime ends or is not driven, the connections move to the
//! keeper.

use lock_core::{
    __private::{has_timer, no_runtime},
    LockError, Worker,
};
use std::{
    future::ready,
    panic::catch_unwind,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{SetOnce, oneshot},
    time::{sleep, timeout},
};

/// The interval of checks that the runtime of the connections is driven.
const LOOK: Duration = Duration::from_millis(500);
/// The time within which it runs a task, unless it is not driven.
const IDLE_AFTER: Duration = LOOK;

pub(crate) struct Home {
    /// The runtime of the connections, until they move.
    first: Handle,
    /// The runtime of everything else.
    keeper: Worker,
    moved: SetOnce<()>,
}

impl Home {
    /// Returns the home of a new store: the worker, or else the current runtime and the keeper. Without a current
    /// runtime, or in one without timers or IO, everything is in the keeper.
    ///
    /// # Errors
    /// [`LockErrorKind::NoRuntime`](lock_core::LockErrorKind::NoRuntime) if the worker's runtime has no timers or no IO,
    /// or if the keeper cannot be started.
    pub(crate) fn new(worker: Option<Worker>) -> Result<Arc<Self>, LockError> {
        if let Some(keeper) = worker {
            let _inside = keeper.handle().enter();
            check_runtime().map_err(no_runtime)?;
            return Ok(Self::within(keeper.clone()));
        }
        let keeper = Worker::keeper().map_err(|error| no_runtime(error.to_string()))?;
        match Handle::try_current() {
            Ok(first) if check_runtime().is_ok() && first.id() != keeper.handle().id() => {
                let home = Arc::new(Self { first, keeper, moved: SetOnce::new() });
                home.keeper().spawn(watch(Arc::downgrade(&home)));
                Ok(home)
            }
            _ => Ok(Self::within(keeper)),
        }
    }

    /// Returns the home of a quorum: everything is where its votes are counted, in the worker or in the keeper. In another
    /// runtime, each vote would cost a switch of threads.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub(crate) fn of_quorum(worker: Option<Worker>) -> Result<Arc<Self>, LockError> {
        let keeper = || Worker::keeper().map_err(|error| no_runtime(error.to_string()));
        Self::new(Some(worker.map_or_else(keeper, Ok)?))
    }

    fn within(keeper: Worker) -> Arc<Self> {
        Arc::new(Self { first: keeper.handle().clone(), keeper, moved: SetOnce::new() })
    }

    /// Returns the runtime of everything but the connections.
    pub(crate) fn keeper(&self) -> &Handle {
        self.keeper.handle()
    }

    /// Returns the runtime in which connections are dialled.
    pub(crate) fn of_connections(&self) -> &Handle {
        if self.may_move() { &self.first } else { self.keeper() }
    }

    /// Returns `true` if the connections have another runtime than everything else.
    pub(crate) fn may_move(&self) -> bool {
        self.first.id() != self.keeper().id() && self.moved.get().is_none()
    }

    /// Moves the connections to the keeper, for good.
    pub(crate) fn leave_first(&self) {
        if self.may_move() && self.moved.set(()).is_ok() {
            tracing::info!(
                "redis connections move to the keeper: the runtime that opened them has ended or is not driven"
            );
        }
    }

    /// Waits until the connections must move. Never completes if they cannot.
    pub(crate) async fn moved(&self) {
        self.moved.wait().await;
    }

    /// Runs work in the runtime of the connections, and again in the keeper if they move meanwhile.
    pub(crate) async fn run<T, F>(&self, work: impl Fn() -> F) -> Result<T, LockError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        while self.may_move() {
            let first = Worker::on(self.first.clone());
            let done = async {
                match first.run(work()).await {
                    // It panicked, unless the runtime has ended.
                    Err(error) if first.run(ready(())).await.is_ok() => Some(Err(error)),
                    done => done.ok().map(Ok),
                }
            };
            tokio::select! {
                biased;
                done = done => match done {
                    Some(done) => return done,
                    None => self.leave_first(),
                },
                () = self.moved() => {}
            }
        }
        self.keeper.run(work()).await
    }

    /// Runs work on this task if it is in the runtime of the connections, and in the keeper otherwise.
    pub(crate) async fn run_here<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, LockError> {
        match Handle::try_current() {
            Ok(here) if here.id() == self.of_connections().id() => Ok(work.await),
            _ => self.keeper.run(work).await,
        }
    }
}

/// Moves the connections when their runtime does not run a task in time.
async fn watch(home: Weak<Home>) {
    loop {
        sleep(LOOK).await;
        let (runs, ran) = oneshot::channel();
        match home.upgrade().filter(|home| home.may_move()) {
            Some(home) => home.first.spawn(async move { runs.send(()) }),
            None => return,
        };
        let is_driven = matches!(timeout(IDLE_AFTER, ran).await, Ok(Ok(())));
        if !is_driven && let Some(home) = home.upgrade() {
            return home.leave_first();
        }
    }
}

/// Returns an error that says which part the current runtime lacks.
fn check_runtime() -> Result<(), String> {
    let why = match (has_timer(), has_io()) {
        (false, _) => "it has no timers",
        (true, false) => "it has no IO",
        (true, true) => return Ok(()),
    };
    Err(format!("connections need a tokio runtime, and {why}: build it with `enable_all`"))
}

/// A runtime without IO reveals this only by panicking.
#[cfg(unix)]
fn has_io() -> bool {
    catch_unwind(|| drop(tokio::net::UnixStream::pair())).is_ok()
}

#[cfg(not(unix))]
fn has_io() -> bool {
    true
}
