//! Wakes one task, or the tasks of a batch of replies. A waker is foreign code: it runs without any mutex held, and
//! the panic of one does not keep others from being woken.

use crate::sync::assert_unlocked;
use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

thread_local! {
    /// The wakers of the current batch of this thread.
    static BATCH: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// Wakes a task, or queues it for the end of the current batch of this thread. A panic in the waker is caught.
pub(crate) fn wake(waker: Waker) {
    // Checked in a batch as well, or a batch would hide that a mutex is held.
    assert_unlocked("a waker");
    // The thread locals of a thread that is ending may be gone.
    if BATCH.try_with(|batch| batch.borrow().is_some()).unwrap_or(false) {
        BATCH.with_borrow_mut(|batch| batch.get_or_insert_default().push(waker));
    } else {
        wake_now(waker);
    }
}

/// Runs code that answers many operations, and wakes their tasks together at the end.
///
/// If they were woken between the replies, every other one would make tokio unpark a worker, which finds one task and
/// parks again; that costs more than the replies. They are not deferred to the runtime (`yield_now`): no
/// other thread can take over deferred tasks, so a task that blocks this thread would delay tasks of all threads and
/// runtimes.
///
/// Inside another batch, the tasks are woken at the end of that one.
pub fn wake_together(code: impl FnOnce()) {
    if BATCH.with_borrow(Option::is_some) {
        return code();
    }
    BATCH.set(Some(Vec::new()));
    let _batch = Batch;
    code();
}

/// Runs foreign code whose panic must not end the current task.
pub(crate) fn contained(what: &'static str, code: impl FnOnce()) {
    assert_unlocked(what);
    if catch_unwind(AssertUnwindSafe(code)).is_err() {
        drop(catch_unwind(|| tracing::error!("{what} panicked")));
    }
}

fn wake_now(waker: Waker) {
    contained("a waker", || waker.wake());
}

/// Ends a batch, even if its code panics.
struct Batch;

impl Drop for Batch {
    fn drop(&mut self) {
        BATCH.take().into_iter().flatten().for_each(wake_now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Mutex, lock, rank};
    use std::{
        future::Future,
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Wake},
    };
    use tokio::{
        runtime::{Builder, Runtime},
        task::yield_now,
    };

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Count {
        fn wakes(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("as planned");
        }
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().expect("a runtime can be made")
    }

    /// Wakes this many tasks in one batch, and returns how many are woken inside of it.
    fn batch(tasks: usize, count: &Arc<Count>) -> usize {
        let mut inside = 0;
        wake_together(|| {
            for _ in 0..tasks {
                wake(count.clone().into());
            }
            inside = count.wakes();
        });
        inside
    }

    #[test]
    fn tasks_are_woken_after_their_batch() {
        let count = Arc::new(Count::default());
        assert_eq!(batch(3, &count), 0);
        assert_eq!(count.wakes(), 3, "at once, outside of a runtime");
        wake(count.clone().into());
        assert_eq!(count.wakes(), 4, "no batch is left");
    }

    /// A waker of an executor that polls in place. The polled future yields to tokio once.
    #[derive(Default)]
    struct PollsInPlace(Count);

    impl Wake for PollsInPlace {
        fn wake(self: Arc<Self>) {
            let _ = pin!(yield_now()).poll(&mut Context::from_waker(Waker::noop()));
            self.0.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn waker_can_poll_in_place() {
        let polled = Arc::new(PollsInPlace::default());
        runtime().block_on(async {
            wake_together(|| {
                wake(polled.clone().into());
                wake(Waker::noop().clone());
            });
            for _ in 0..3 {
                yield_now().await;
            }
        });
        assert_eq!(polled.0.wakes(), 1);
    }

    #[test]
    fn single_task_is_woken_immediately() {
        let count = Arc::new(Count::default());
        runtime().block_on(async {
            assert_eq!(batch(1, &count), 0);
            assert_eq!(count.wakes(), 1);
        });
    }

    #[test]
    fn end_of_a_runtime_loses_no_wake_up() {
        let count = Arc::new(Count::default());
        let runtime = runtime();
        runtime.block_on(async { assert_eq!(batch(3, &count), 0) });
        drop(runtime);
        assert_eq!(count.wakes(), 3);
    }

    #[test]
    fn inner_batch_ends_with_the_outer_one() {
        let count = Arc::new(Count::default());
        wake_together(|| {
            batch(2, &count);
            assert_eq!(count.wakes(), 0);
        });
        assert_eq!(count.wakes(), 2);
    }

    #[test]
    fn panics_do_not_keep_tasks_from_being_woken() {
        let count = Arc::new(Count::default());
        let code = || {
            wake(Arc::new(Panics).into());
            wake(count.clone().into());
            panic!("as planned");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| wake_together(code))).is_err());
        assert_eq!(count.wakes(), 1);
        assert_eq!(batch(2, &count), 1, "none of the next batch");
        assert_eq!(count.wakes(), 3);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "a waker is called under the mutex `Entry`"))]
    fn waker_under_a_mutex_panics_in_debug_builds() {
        let entry = Mutex::<rank::Entry, _>::new(());
        let _entry = lock(&entry);
        wake(Waker::noop().clone());
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "a store is called under the mutex `Entry`"))]
    fn store_under_a_mutex_panics_in_debug_builds() {
        let entry = Mutex::<rank::Entry, _>::new(());
        let _entry = lock(&entry);
        contained("a store", || ());
    }
}
