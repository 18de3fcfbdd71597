//! What stands in for threads, tokio's runtime and time while `lock-shuttle` explores schedules; no other build has it.
//!
//! Mutexes and atomics are shuttle's, and each use of one is a place where another thread may go on. A [`Runtime`] is
//! a number and a list of tasks, which can be shut down at any moment. Time stands still until a test moves it: what
//! waits for a bell that nobody rings is a deadlock, and no timer covers it up.

use crate::{
    clock::Clock,
    time::{Moment, ServerTime},
};
use shuttle::future::{self, AbortHandle, JoinHandle};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    hash::{BuildHasherDefault, DefaultHasher},
    ops::Add,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

pub(crate) mod mutex {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
}

/// One and the same in every run, so that a schedule can be repeated.
pub(crate) type Hashing = BuildHasherDefault<DefaultHasher>;

/// A bug on purpose, which the exploration must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// A future that is dropped with its grant keeps it for ever.
    ForgetsGrant,
    /// A waiter looks at its seat and leaves its waker there in two steps.
    LooksInTwoSteps,
    /// The worker is rung for before the letter lies in the inbox.
    RingsFirst,
    /// A cell is taken off the worker's list only after it was worked on.
    UnlistsLate,
    /// A waiter takes a seat in a cell that is out of the map.
    SitsInDeadCells,
    /// Whether a call was answered is read and written in two steps.
    AnswersTwice,
    /// A call that ends with its runtime says nothing.
    DropsCalls,
    /// What is going on is counted in two steps.
    CountsInTwoSteps,
    /// A shutdown does not wait for those who are entering.
    EntersUncounted,
}

// A run has one OS thread, on which all of its threads take turns: std's thread locals are its globals.
thread_local! {
    static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    static TIME: RefCell<Time> = const { RefCell::new(Time { now: Duration::ZERO, timers: BTreeMap::new(), next: 0 }) };
}

/// From now on, on this OS thread.
pub fn plant(plant: Option<Plant>) {
    PLANTED.set(plant);
}

pub(crate) fn planted(plant: Plant) -> bool {
    PLANTED.get() == Some(plant)
}

struct Time {
    now: Duration,
    timers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
}

/// Back to the beginning, without a timer.
pub fn restart_time() {
    let before = TIME.take();
    drop(before);
}

impl Default for Time {
    fn default() -> Self {
        Self { now: Duration::ZERO, timers: BTreeMap::new(), next: 0 }
    }
}

/// Time goes on, and those who slept until then wake up.
pub fn advance(by: Duration) {
    let due = TIME.with_borrow_mut(|time| {
        time.now += by;
        let later = time.timers.split_off(&(time.now + Duration::from_nanos(1), 0));
        std::mem::replace(&mut time.timers, later)
    });
    due.into_values().for_each(Waker::wake);
}

/// How long the next sleeper sleeps; `None` if all of them sleep for longer than a year, that is, for ever.
#[must_use]
pub fn next_timer() -> Option<Duration> {
    const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    TIME.with_borrow(|time| {
        let ((at, _), _) = time.timers.first_key_value()?;
        (*at < FOR_EVER).then(|| at.saturating_sub(time.now))
    })
}

/// Since the run began.
#[must_use]
pub fn elapsed() -> Duration {
    now()
}

fn now() -> Duration {
    TIME.with_borrow(|time| time.now)
}

/// The clock of processes and of the store.
#[derive(Debug)]
pub struct ExploredClock;

impl Clock for ExploredClock {
    fn now(&self) -> Moment {
        Moment::START + now()
    }

    fn wall(&self) -> ServerTime {
        ServerTime::from_micros(1_000_000_000_000_000) + now()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(now())
    }

    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }
}

pub(crate) struct Sleep {
    key: (Duration, u64),
}

pub(crate) fn sleep(duration: Duration) -> Sleep {
    TIME.with_borrow_mut(|time| {
        time.next += 1;
        Sleep { key: (time.now.saturating_add(duration), time.next) }
    })
}

impl Sleep {
    pub(crate) fn reset(mut self: Pin<&mut Self>, to: Instant) {
        TIME.with_borrow_mut(|time| {
            let waker = time.timers.remove(&self.key);
            self.key.0 = to.0;
            time.timers.extend(waker.map(|waker| (self.key, waker)));
        });
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.key.0 <= now() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let before = TIME.with_borrow_mut(|time| time.timers.insert(self.key, waker));
        drop(before);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = TIME.with_borrow_mut(|time| time.timers.remove(&self.key));
        drop(waker);
    }
}

pub(crate) async fn timeout<F: Future>(duration: Duration, work: F) -> Result<F::Output, ()> {
    let (mut work, mut over) = (pin!(work), pin!(sleep(duration)));
    std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => over.as_mut().poll(cx).map(Err),
    })
    .await
}

/// A tokio runtime, as far as the driver can tell: tasks run in it until it is shut down.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id(u64);

pub(crate) type Handle = Runtime;

shuttle::thread_local! {
    static CURRENT: RefCell<Option<Runtime>> = RefCell::new(None);
}

impl Runtime {
    /// Runtimes are told apart by their numbers.
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

    /// Every task of it ends at its next await; those that come later are not even begun.
    pub fn shut_down(&self) {
        let tasks: Vec<_> = {
            let mut tasks = self.tasks();
            tasks.over = true;
            tasks.handles.iter().map(JoinHandle::abort_handle).collect()
        };
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Waits until every task of it has ended.
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

    /// A task that nobody waits for.
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
        // Spawning lets others go on, a shutdown for example.
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
