//! The work of a factory that is due now or later: the wake-ups of entries, the times from which their holds may be
//! renewed with others, the timeouts of operations, and queued work. The keeper's task does it.
//!
//! Each addition publishes its time. The task is only woken if it would otherwise sleep for longer, so the requests of
//! an uncontended lock do not wake it.

use super::{
    activity::ActivityGuard,
    entry::{LockEntry, Times},
    request::Request,
};
use crate::{
    machine::Event,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        lock, rank,
    },
    time::Moment,
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use tokio::sync::{Notify, futures::Notified};

/// The lateness from which a timer counts as stopped: timers stop while the computer is suspended.
const OVERDUE: Duration = Duration::from_millis(20);

/// The published time of a task that is awake: it looks at the agenda again before it sleeps, so no time wakes it.
const AWAKE: u64 = 0;

/// The published time of a task that sleeps until it is woken, or that is about to look at the agenda.
const IDLE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Agenda {
    items: Mutex<rank::Agenda, Items>,
    /// The time until which the task sleeps, in microseconds, or one of the constants above.
    sleeps_until: AtomicU64,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Items {
    wakes: Sorted<Arc<LockEntry>>,
    renewable: Sorted<Arc<LockEntry>>,
    operations: Sorted<Arc<dyn Expire>>,
    work: Work,
    /// Renewals, to be sent together.
    renewals: Vec<(Arc<LockEntry>, Request)>,
    guards: usize,
}

/// Work for the next turn of the task, queued from any thread, inside or outside a runtime.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Entries whose guards were dropped. Space for each guard is reserved when it is created.
    pub(super) dropped: Vec<Arc<LockEntry>>,
    /// Entries that were woken.
    pub(super) woken: Vec<Arc<LockEntry>>,
    /// Outcomes of operations that timed out.
    pub(super) answered: Vec<Answered>,
    /// Requests that the caller could not start.
    pub(super) requests: Vec<(Arc<LockEntry>, Request)>,
}

/// An operation that can time out.
pub(super) trait Expire: fmt::Debug + Send + Sync {
    /// Ends the operation, and returns its outcome, unless it has been answered.
    fn expire(&self) -> Option<Answered>;
}

/// The outcome of an operation. The operation counts as active until this is delivered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) entry: Arc<LockEntry>,
    pub(super) event: Event,
    pub(super) active: ActivityGuard,
}

impl Default for Agenda {
    fn default() -> Self {
        Self { items: Mutex::default(), sleeps_until: AtomicU64::new(AWAKE), changed: Notify::new() }
    }
}

impl Agenda {
    /// Makes the task run at this time or earlier.
    pub(super) fn wake_by(&self, at: Moment, now: Moment) {
        let sleeps_until = self.sleeps_until.load(Ordering::SeqCst);
        let is_stopped = sleeps_until != AWAKE && Moment::from_micros(sleeps_until) + OVERDUE < now;
        let at = at.as_micros();
        if is_stopped || at < sleeps_until && at < self.sleeps_until.fetch_min(at, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Makes the task run now.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Begins a turn of the task.
    pub(super) fn begin_turn(&self) {
        self.sleeps_until.store(AWAKE, Ordering::SeqCst);
    }

    /// Ends the turn: a time that is added from now on wakes the task, or is found when it looks for the next one.
    pub(super) fn end_turn(&self) {
        self.sleeps_until.store(IDLE, Ordering::SeqCst);
    }

    /// Publishes the time until which the task will sleep, and returns the notification that ends its sleep.
    pub(super) fn sleep_until(&self, at: Option<Moment>) -> Notified<'_> {
        if let Some(at) = at {
            self.sleeps_until.fetch_min(at.as_micros(), Ordering::SeqCst);
        }
        self.changed.notified()
    }

    /// Returns the earliest time at which an entry or an operation is due.
    pub(super) fn next(&self) -> Option<Moment> {
        let items = lock(&self.items);
        items.wakes.next().into_iter().chain(items.operations.next()).min()
    }

    /// Changes an entry's times. Called while the entry's mutex is held.
    pub(super) fn set_times(&self, entry: &Arc<LockEntry>, from: Times, to: Times, now: Moment) {
        let next = {
            let mut items = lock(&self.items);
            items.wakes.move_to(entry.id, entry, from.wake, to.wake);
            items.renewable.move_to(entry.id, entry, from.renewable_from, to.renewable_from);
            items.wakes.next()
        };
        self.publish(next, to.wake, now);
    }

    /// Publishes the earliest time if it is the one that was just set, or if it has passed.
    fn publish(&self, next: Option<Moment>, set: Option<Moment>, now: Moment) {
        if let Some(next) = next.filter(|next| Some(*next) == set || *next <= now) {
            self.wake_by(next, now);
        }
    }

    /// Takes the entries that are due.
    pub(super) fn take_due(&self, now: Moment) -> Vec<Arc<LockEntry>> {
        lock(&self.items).wakes.take_due(now)
    }

    /// Returns the entries whose holds may be renewed now. They stay until they are renewed.
    pub(super) fn renewable(&self, now: Moment) -> Vec<Arc<LockEntry>> {
        lock(&self.items).renewable.due(now)
    }

    /// Adds an operation, which times out at `due`.
    pub(super) fn add_operation(&self, due: Moment, id: u64, operation: Arc<dyn Expire>, now: Moment) {
        let next = {
            let mut items = lock(&self.items);
            items.operations.insert(due, id, operation);
            items.operations.next()
        };
        self.publish(next, Some(due), now);
    }

    /// Removes an operation that was answered.
    pub(super) fn remove_operation(&self, due: Moment, id: u64) {
        let removed = lock(&self.items).operations.remove(due, id);
        drop(removed);
    }

    /// Takes the operations that have timed out.
    pub(super) fn take_expired(&self, now: Moment) -> Vec<Arc<dyn Expire>> {
        lock(&self.items).operations.take_due(now)
    }

    /// Queues work for the next turn.
    pub(super) fn put(&self, work: impl FnOnce(&mut Work)) {
        work(&mut lock(&self.items).work);
        self.wake();
    }

    /// Queues a renewal, which is sent together with others.
    pub(super) fn put_renewal(&self, entry: &Arc<LockEntry>, renewal: Request) {
        lock(&self.items).renewals.push((entry.clone(), renewal));
        self.wake();
    }

    /// Takes the queued work, of entries at most so many of each kind. If there are more, the task runs again. The
    /// space reserved for guards stays.
    pub(super) fn take_work(&self, most: usize) -> Work {
        let Work { dropped, woken, answered, requests } = &mut lock(&self.items).work;
        if dropped.len().max(woken.len()) > most {
            self.wake();
        }
        Work {
            dropped: dropped.drain(..most.min(dropped.len())).collect(),
            woken: woken.drain(..most.min(woken.len())).collect(),
            answered: std::mem::take(answered),
            requests: std::mem::take(requests),
        }
    }

    pub(super) fn take_renewals(&self) -> Vec<(Arc<LockEntry>, Request)> {
        std::mem::take(&mut lock(&self.items).renewals)
    }

    /// Takes the outcomes, all requests and all operations, because nothing will send them or end them in time.
    pub(super) fn take_unfinished(&self) -> (Vec<Answered>, Vec<(Arc<LockEntry>, Request)>) {
        let (mut answered, requests, operations) = {
            let Items { work, renewals, operations, .. } = &mut *lock(&self.items);
            let requests = std::mem::take(&mut work.requests).into_iter().chain(std::mem::take(renewals));
            (std::mem::take(&mut work.answered), requests.collect(), operations.take_all())
        };
        answered.extend(operations.iter().filter_map(|operation| operation.expire()));
        (answered, requests)
    }

    /// Forgets the times of the entries.
    pub(super) fn forget_times(&self) {
        let (wakes, renewable) = {
            let mut items = lock(&self.items);
            (items.wakes.take_all(), items.renewable.take_all())
        };
        drop((wakes, renewable));
    }

    /// Returns `true` if no work is queued.
    pub(super) fn is_empty(&self) -> bool {
        let Items { work, renewals, .. } = &*lock(&self.items);
        work.dropped.is_empty()
            && work.woken.is_empty()
            && work.answered.is_empty()
            && work.requests.is_empty()
            && renewals.is_empty()
    }

    /// Reserves space for the drop of one more guard, which must not allocate.
    pub(super) fn guard_made(&self) {
        let mut items = lock(&self.items);
        items.guards += 1;
        let room = items.guards;
        items.work.dropped.reserve(room);
    }

    pub(super) fn guard_gone(&self) {
        let mut items = lock(&self.items);
        items.guards = items.guards.saturating_sub(1);
    }
}

/// Items sorted by time. A number tells items with the same time apart.
struct Sorted<T>(BTreeMap<(Moment, u64), T>);

impl<T: Clone> Sorted<T> {
    fn insert(&mut self, at: Moment, id: u64, item: T) {
        self.0.insert((at, id), item);
    }

    /// The caller drops the item after it has released the mutex.
    fn remove(&mut self, at: Moment, id: u64) -> Option<T> {
        self.0.remove(&(at, id))
    }

    fn move_to(&mut self, id: u64, item: &T, from: Option<Moment>, to: Option<Moment>) {
        if from == to {
            return;
        }
        if let Some(at) = from {
            self.remove(at, id);
        }
        if let Some(at) = to {
            self.insert(at, id, item.clone());
        }
    }

    fn next(&self) -> Option<Moment> {
        self.0.first_key_value().map(|((at, _), _)| *at)
    }

    fn due(&self, now: Moment) -> Vec<T> {
        self.0.range(..=(now, u64::MAX)).map(|(_, item)| item.clone()).collect()
    }

    fn take_due(&mut self, now: Moment) -> Vec<T> {
        if self.next().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let later = self.0.split_off(&(now + Duration::from_micros(1), 0));
        std::mem::replace(&mut self.0, later).into_values().collect()
    }

    fn take_all(&mut self) -> Vec<T> {
        std::mem::take(&mut self.0).into_values().collect()
    }
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> fmt::Debug for Sorted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorted").field("items", &self.0.len()).finish()
    }
}
