//! A lease that is handed off between tasks while others enter.

use crate::{
    explore::explore,
    world::{NAME, Pace, Store, acquire},
};
use futures_util::{FutureExt, future::BoxFuture};
use lock_explored::{
    FencingToken, LockError, LockGuard,
    explored::{Runtime, advance},
    observer::{GrantSource, LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::planted::PlantedBug;
use shuttle::thread;
use std::{
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

/// The holds that began and ended, in the order in which they were observed.
#[derive(Debug, Clone, Default)]
struct Observed(Arc<Mutex<Holds>>);

#[derive(Debug, Default)]
struct Holds {
    begun: Vec<FencingToken>,
    ended: Vec<FencingToken>,
    passed_on: usize,
}

impl LockObserver for Observed {
    fn on_event(&self, event: &LockEvent<'_>) {
        let mut holds = self.0.lock().expect("not poisoned");
        match &event.kind {
            LockEventKind::Granted { token, source, .. } => {
                holds.begun.push(*token);
                holds.passed_on += usize::from(*source == GrantSource::HandOff);
            }
            LockEventKind::Ended { token, .. } => {
                let begun = holds.begun.contains(token);
                holds.ended.push(*token);
                drop(holds);
                assert!(begun, "the end of {token:?} is observed before its start");
            }
            _ => {}
        }
    }
}

#[test]
fn lease_is_handed_off_while_a_waiter_enters() {
    fn story() {
        let (store, observed) = (Store::new(Pace::AtOnce), Observed::default());
        let (locks, runtime) = (store.factory(observed.clone()), Runtime::new(1));
        let first = runtime.block_on(acquire(&locks));
        let waits = |future: BoxFuture<'static, Result<LockGuard, LockError>>| {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.block_on(async { drop(future.await.unwrap().release().await) }))
        };
        let lock = locks.named(NAME).unwrap();
        // The next acquire finds two of them in the queue and reserves tokens.
        let waiters = [(); 2].map(|()| {
            let mut future = lock.acquire().boxed();
            let polled = runtime.enter(|| future.poll_unpin(&mut Context::from_waker(Waker::noop())));
            assert!(polled.is_pending());
            waits(future)
        });
        // During a hand-off, or just before or after it.
        let entering = waits(lock.acquire().boxed());
        // A store only reserves tokens as far as its clock allows.
        advance(Duration::from_millis(2));
        drop(runtime.block_on(first.release()));
        waiters.into_iter().chain([entering]).for_each(|task| task.join().unwrap());
        assert!(runtime.block_on(locks.shutdown()).is_clean());
        runtime.join();
        assert_eq!((store.memory.held(), locks.active_locks()), (Vec::new(), 0));
        let holds = observed.0.lock().unwrap();
        assert_eq!(holds.begun.len(), 4);
        assert!(holds.begun.is_sorted_by(|a, b| a < b), "tokens rise: {:?}", holds.begun);
        assert!(holds.passed_on > 0, "the lease is handed off: {holds:?}");
    }
    explore(story, &[PlantedBug::WakesBeforeObserving]);
}
