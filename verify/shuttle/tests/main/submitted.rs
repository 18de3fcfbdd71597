//! Operations that are answered by a thread of the store.

use crate::{
    calls::{Renewals, until},
    explore::explore,
    world::{NAME, Pace, Store, acquire},
};
use async_trait::async_trait;
use lock_explored::{
    LockErrorKind, LockFactory, LockName, MemoryBackend,
    backend::{
        Backend, BackendError, Capabilities, ForceReleaseRequest, ForceReleased, Inspected, Operation, Reply,
        Submission,
    },
    clock::UtcTime,
    explored::{Runtime, advance},
    observer::LockObserver,
};
use lock_testkit::planted::PlantedBug;
use shuttle::thread;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// More turns than an answer needs.
const TURNS: usize = 500;
/// The operation timeout of these locks.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The kind of operation whose first instance is kept instead of answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    Acquire,
    Renewal,
}

/// Answers each operation in a separate thread, but keeps one.
#[derive(Debug)]
struct Threads {
    store: Store,
    keeps: Keeps,
    has_kept: AtomicBool,
    kept: Mutex<Option<Submission>>,
    /// The number of submitted operations.
    submitted: AtomicUsize,
}

impl Threads {
    fn new(store: &Store, keeps: Keeps) -> Arc<Self> {
        let (has_kept, kept, submitted) = (AtomicBool::new(false), Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { store: store.clone(), keeps, has_kept, kept, submitted })
    }

    fn has_one(&self) -> bool {
        self.kept.lock().expect("not poisoned").is_some()
    }

    fn take(&self) -> Submission {
        self.kept.lock().expect("not poisoned").take().expect("kept")
    }

    /// Answers an operation in another thread.
    fn answer(self: &Arc<Self>, submission: Submission) -> thread::JoinHandle<()> {
        let memory = self.store.memory.clone();
        thread::spawn(move || memory.submit(submission))
    }

    fn is_kept(&self, submission: &Submission) -> bool {
        let wanted = match submission.operation() {
            Operation::Acquire(_) => self.keeps == Keeps::Acquire,
            Operation::Renew(_) => self.keeps == Keeps::Renewal,
            Operation::Release(_) => false,
        };
        wanted && !self.has_kept.swap(true, Ordering::SeqCst)
    }
}

/// The backend of a factory.
#[derive(Debug)]
struct Threaded(Arc<Threads>);

impl Threaded {
    fn memory(&self) -> &MemoryBackend {
        &self.0.store.memory
    }
}

#[async_trait]
impl Backend for Threaded {
    fn capabilities(&self) -> Capabilities {
        self.memory().capabilities().with_wakes_in_task()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.memory().server_now(name)
    }

    fn submit(&self, submission: Submission) {
        self.0.submitted.fetch_add(1, Ordering::SeqCst);
        if self.0.is_kept(&submission) {
            *self.0.kept.lock().expect("not poisoned") = Some(submission);
        } else {
            drop(self.0.answer(submission));
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.memory().inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.memory().force_release(request).await
    }
}

fn locks(keeps: Keeps, observer: impl LockObserver) -> (Arc<Threads>, LockFactory) {
    let store = Store::new(Pace::AtOnce);
    let threads = Threads::new(&store, keeps);
    let locks = store.through(observer, Arc::new(Threaded(threads.clone())));
    (threads, locks)
}

/// Races the answer to an operation against the end of its time. Only one of them may have an effect.
fn beside_its_deadline(settle: fn(&Arc<Threads>, Submission)) {
    let renewals = Renewals::default();
    let (threads, locks) = locks(Keeps::Renewal, renewals.clone());
    let runtime = Runtime::new(1);
    let guard = runtime.block_on(acquire(&locks));
    assert_eq!(guard.name().as_str(), NAME);
    until(|| threads.has_one());
    let settling = thread::spawn({
        let threads = threads.clone();
        move || settle(&threads, threads.take())
    });
    advance(TIMEOUT);
    until(|| renewals.sent().len() > 1);
    settling.join().expect("settles the operation");
    let sent = renewals.sent();
    assert!(sent.is_sorted_by(|a, b| a < b), "answered twice: {sent:?}");
    drop(guard);
    runtime.shut_down();
    runtime.join();
}

#[test]
fn answer_and_deadline_are_one_event() {
    fn story() {
        beside_its_deadline(|threads, submission| threads.store.memory.submit(submission));
    }
    explore(story, &[PlantedBug::DeliversTwice]);
}

#[test]
fn drop_and_deadline_are_one_event() {
    fn story() {
        beside_its_deadline(|_, submission| drop(submission));
    }
    explore(story, &[PlantedBug::DeliversTwice]);
}

#[test]
fn reply_beside_the_submission_is_delivered_at_once() {
    fn story() {
        let (_, locks) = locks(Keeps::Nothing, Renewals::default());
        let (runtime, acquired) = (Runtime::new(1), Arc::new(AtomicBool::new(false)));
        let acquires = thread::spawn({
            let (runtime, locks, acquired) = (runtime.clone(), locks.clone(), acquired.clone());
            move || {
                let guard = runtime.block_on(acquire(&locks));
                acquired.store(true, Ordering::SeqCst);
                drop(guard);
            }
        });
        // Time does not advance.
        let answered = (0..TURNS).any(|_| {
            thread::yield_now();
            acquired.load(Ordering::SeqCst)
        });
        assert!(answered, "the reply is only missed at its deadline");
        acquires.join().unwrap();
        runtime.block_on(locks.shutdown());
        runtime.join();
    }
    explore(story, &[PlantedBug::LosesEarlyReply]);
}

/// The time of an operation may pass at any step of its submission.
#[test]
fn operation_that_times_out_in_its_submission_is_repeated() {
    fn story() {
        let (threads, locks) = locks(Keeps::Acquire, Renewals::default());
        let runtime = Runtime::new(1);
        let acquires = thread::spawn({
            let (runtime, locks) = (runtime.clone(), locks.clone());
            move || drop(runtime.block_on(acquire(&locks)))
        });
        until(|| threads.submitted.load(Ordering::SeqCst) > 1);
        acquires.join().unwrap();
        runtime.block_on(locks.shutdown());
        runtime.join();
    }
    explore(story, &[]);
}

#[test]
fn dropped_operation_is_answered_as_unknown_at_once() {
    fn story() {
        let renewals = Renewals::default();
        let (threads, locks) = locks(Keeps::Renewal, renewals.clone());
        let runtime = Runtime::new(1);
        let guard = runtime.block_on(acquire(&locks));
        until(|| threads.has_one());
        drop(threads.take());
        // Time does not advance from now on.
        let answered = (0..TURNS).any(|_| {
            thread::yield_now();
            !renewals.sent().is_empty()
        });
        assert!(answered, "a dropped operation is only answered at its deadline");
        drop(guard);
        runtime.shut_down();
        runtime.join();
    }
    explore(story, &[PlantedBug::ForgetsDroppedOperation]);
}

#[test]
fn shutdown_waits_for_a_submitted_renewal() {
    fn story() {
        let renewals = Renewals::default();
        let (threads, locks) = locks(Keeps::Renewal, renewals.clone());
        let runtime = Runtime::new(1);
        let guard = runtime.block_on(acquire(&locks));
        until(|| threads.has_one());
        let releases = thread::spawn({
            let runtime = runtime.clone();
            move || drop(runtime.block_on(guard.release()))
        });
        let answers = threads.answer(threads.take());
        let report = runtime.block_on(locks.shutdown());
        assert!(report.is_clean(), "{report:?}");
        let before = renewals.sent();
        answers.join().unwrap();
        assert_eq!(renewals.sent(), before, "no renewal is answered after the shutdown");
        releases.join().unwrap();
        // Lets the keeper's task end that the release may have started.
        runtime.block_on(locks.shutdown());
        runtime.join();
    }
    explore(story, &[PlantedBug::SubmitsUncounted]);
}

#[test]
fn shutdown_beside_submitted_operations_leaves_nothing() {
    fn story() {
        let (threads, locks) = locks(Keeps::Nothing, Renewals::default());
        let runtime = Runtime::new(1);
        let tasks = [(); 2].map(|()| {
            let (runtime, locks) = (runtime.clone(), locks.clone());
            thread::spawn(move || {
                runtime.block_on(async {
                    match locks.named(NAME).unwrap().acquire().await {
                        Ok(guard) => drop(guard),
                        Err(error) => assert_eq!(error.kind(), LockErrorKind::ShutDown),
                    }
                });
            })
        });
        let report = runtime.block_on(locks.shutdown());
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(threads.store.memory.held(), []);
        let submitted = threads.submitted.load(Ordering::SeqCst);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        let later = threads.submitted.load(Ordering::SeqCst);
        assert_eq!(later, submitted, "no operation is submitted after the shutdown");
        // Lets the keeper's task end that an acquire may have started.
        runtime.block_on(locks.shutdown());
        runtime.join();
    }
    explore(story, &[PlantedBug::EntersUncounted]);
}
