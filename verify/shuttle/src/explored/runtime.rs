//! Runtimes that can be shut down at any moment.

use shuttle::future::{self, AbortHandle, JoinHandle};
use std::{
    cell::RefCell,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A tokio runtime as the driver sees it: tasks run in it until it is shut down.
#[derive(Debug, Clone)]
pub struct Runtime {
    id: Id,
    tasks: Arc<Mutex<Tasks>>,
}

#[derive(Debug, Default)]
struct Tasks {
    over: bool,
    handles: Vec<JoinHandle<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id(u64);

pub(crate) type Handle = Runtime;

shuttle::thread_local! {
    static CURRENT: RefCell<Option<Runtime>> = RefCell::new(None);
}

/// Runs the function in this runtime.
pub(crate) fn enter<T>(runtime: &Handle, f: impl FnOnce() -> T) -> T {
    runtime.enter(f)
}

impl Runtime {
    /// Creates a runtime. Runtimes are identified by their numbers.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self { id: Id(number), tasks: Arc::default() }
    }

    /// Runs the future on this thread, in this runtime.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.enter(|| future::block_on(work))
    }

    /// Runs the function in this runtime.
    pub fn enter<T>(&self, f: impl FnOnce() -> T) -> T {
        let before = CURRENT.with(|current| current.replace(Some(self.clone())));
        let done = f();
        CURRENT.with(|current| *current.borrow_mut() = before);
        done
    }

    /// Ends each of its tasks at the next await. Later tasks are not started.
    pub fn shut_down(&self) {
        let tasks: Vec<_> = {
            let mut tasks = self.tasks();
            tasks.over = true;
            tasks.handles.iter().map(JoinHandle::abort_handle).collect()
        };
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Waits until all its tasks have ended.
    pub fn join(&self) {
        loop {
            let tasks = std::mem::take(&mut self.tasks().handles);
            if tasks.is_empty() {
                return;
            }
            for task in tasks {
                let _ = future::block_on(task);
            }
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_current() -> Result<Self, ()> {
        CURRENT.with(|current| current.borrow().clone()).ok_or(())
    }

    pub(crate) fn id(&self) -> Id {
        self.id
    }

    /// Spawns a detached task.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let runtime = self.clone();
        let work = async move {
            CURRENT.with(|current| *current.borrow_mut() = Some(runtime));
            work.await;
        };
        if self.tasks().over {
            return drop(work);
        }
        let task = future::spawn(work);
        // Spawning lets other threads run, which may for example shut down.
        let abort = task.abort_handle();
        let too_late = {
            let mut tasks = self.tasks();
            tasks.handles.push(task);
            tasks.over
        };
        if too_late {
            abort.abort();
        }
    }
}
