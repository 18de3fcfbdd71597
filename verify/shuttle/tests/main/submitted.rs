//! Operations that were submitted to a pipeline: the answer comes from a thread of the store.

use crate::{
    calls::{Renewals, until},
    explore::explore,
    world::{NAME, Pace, Store, acquire},
};
use futures_util::FutureExt;
use lock_explored::{
    backend::{Backend, Operation, Pipeline},
    explored::{Runtime, advance},
};
use lock_testkit::planted::PlantedBug;
use shuttle::thread;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Answers each operation in a thread of its own, but keeps the first renewal.
#[derive(Debug)]
struct Threads {
    store: Store,
    kept: Arc<Mutex<Option<Operation>>>,
    keeps: AtomicBool,
}

impl Pipeline for Threads {
    fn submit(&self, operation: Operation) {
        let store = self.store.clone();
        if matches!(operation, Operation::Renew(..)) && self.keeps.swap(false, Ordering::SeqCst) {
            *self.kept.lock().expect("nobody panics with it") = Some(operation);
        } else {
            thread::spawn(move || answer(&store, operation));
        }
    }
}

/// The store in memory answers in the first poll.
fn answer(store: &Store, operation: Operation) {
    const AT_ONCE: &str = "the store in memory never waits";
    let memory = &store.memory;
    match operation {
        Operation::Acquire(request, completion) => {
            completion.complete(memory.acquire(request).now_or_never().expect(AT_ONCE));
        }
        Operation::Release(request, completion) => {
            completion.complete(memory.release(request).now_or_never().expect(AT_ONCE));
        }
        Operation::Renew(request, completion) => {
            let mut answers = memory.renew(vec![request]).now_or_never().expect(AT_ONCE);
            completion.complete(answers.remove(0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn answer_and_deadline_are_one_event() {
    fn story() {
        let (store, renewals) = (Store::new(Pace::AtOnce), Renewals::default());
        let kept = Arc::new(Mutex::new(None));
        let pipeline = Threads { store: store.clone(), kept: kept.clone(), keeps: AtomicBool::new(true) };
        let locks = store.pipelined(renewals.clone(), Arc::new(pipeline));
        let runtime = Runtime::new(1);
        let guard = runtime.block_on(acquire(&locks));
        assert_eq!(guard.name().as_str(), NAME);
        until(|| kept.lock().unwrap().is_some());
        let answers = thread::spawn({
            let store = store.clone();
            move || {
                let operation = kept.lock().unwrap().take().expect("it was kept");
                answer(&store, operation);
            }
        });
        advance(Duration::from_secs(3));
        until(|| renewals.sent().len() > 1);
        answers.join().unwrap();
        let sent = renewals.sent();
        assert!(sent.is_sorted_by(|a, b| a < b), "answered twice: {sent:?}");
        drop(guard);
        runtime.shut_down();
        runtime.join();
    }
    explore(story, &[PlantedBug::DeliversTwice]);
}
