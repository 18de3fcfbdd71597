//! What the locks of one factory share.

use super::{
    activity::ActivityCounter,
    alarm::Alarms,
    deadlines::{Deadlines, TimedCall},
    entry::{DeferredEvents, LockEntry, QueueKind},
    schedule::Schedule,
    table::LockTable,
    work_queue::{Work, WorkQueue},
};
use crate::{
    backend::{Backend, Pipeline, Store, SubscriberId, Subscriptions},
    clock::Clock,
    ids::ProcessId,
    inspect::{LocalHold, LocalView},
    machine::{HoldId, MachineConfig, OwnerId},
    name::LockName,
    observer::{LockEvent, Observers},
    options::{Limits, LockOptions, OptionsError},
    owner::Owner,
    random::Random,
    sync::{
        Id, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        lock, rank,
    },
    terms::Terms,
    time::Moment,
};
use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

/// A worker that has not read its queue after this time is held up by the thread on which it is to run.
const HELD_UP: Duration = Duration::from_millis(20);

pub(crate) struct Shared {
    pub(crate) process: ProcessId,
    pub(crate) backend: Arc<dyn Backend>,
    pub(super) pipeline: Option<Arc<dyn Pipeline>>,
    pub(super) subscriptions: Option<Arc<dyn Subscriptions>>,
    pub(super) subscriber: OnceLock<SubscriberId>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: LockOptions,
    /// The terms of the factory's own options, made once for all of its locks.
    pub(super) default_terms: Result<Terms, OptionsError>,
    pub(crate) limits: Limits,
    pub(super) observers: Observers,
    pub(super) config: MachineConfig,
    pub(super) random: Random,
    /// The clock is the real one, so that a thread may watch the alarms.
    pub(super) has_backstop: bool,
    /// For holds, whose watchdog it is, and for wake-ups.
    pub(super) me: Weak<Self>,
    pub(super) table: LockTable,
    pub(super) schedule: Mutex<rank::Schedule, Schedule>,
    pub(super) deadlines: Mutex<rank::Deadlines, Deadlines>,
    pub(super) work: WorkQueue,
    pub(super) alarms: Alarms,
    pub(super) runtimes: Runtimes,
    pub(super) activity: Arc<ActivityCounter>,
    pub(super) waiting: AtomicUsize,
    pub(super) shutdown_millis: AtomicU64,
    last_id: AtomicU64,
}

/// What a factory makes it of.
pub(crate) struct Parts {
    pub(crate) process: ProcessId,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: LockOptions,
    pub(crate) limits: Limits,
    pub(crate) observers: Observers,
    pub(crate) config: MachineConfig,
    pub(crate) random: Random,
    pub(crate) has_backstop: bool,
}

/// The runtimes that have a worker, and those that had ended when one was to begin there.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    pub(super) with_worker: Mutex<rank::RuntimesWithWorker, Vec<Id>>,
    /// Something may still be polled in them, by `Handle::block_on`: it would begin a worker, be woken by its end, and
    /// begin another one, for ever.
    pub(super) ended: Mutex<rank::RuntimesEnded, Vec<Id>>,
}

impl Runtimes {
    pub(super) fn any(&self) -> bool {
        !lock(&self.with_worker).is_empty()
    }

    pub(super) fn has_worker(&self, runtime: Id) -> bool {
        lock(&self.with_worker).contains(&runtime)
    }

    pub(super) fn has_ended(&self, runtime: Id) -> bool {
        lock(&self.ended).contains(&runtime)
    }
}

impl Shared {
    pub(super) fn new(parts: Parts, me: Weak<Self>) -> Self {
        let Store { backend, subscriptions, pipeline } = parts.store;
        Self {
            process: parts.process,
            backend,
            pipeline,
            subscriptions,
            subscriber: OnceLock::new(),
            clock: parts.clock,
            options: parts.options,
            default_terms: parts.limits.terms(&parts.options),
            limits: parts.limits,
            observers: parts.observers,
            config: parts.config,
            random: parts.random,
            has_backstop: parts.has_backstop,
            me,
            table: LockTable::default(),
            schedule: Mutex::default(),
            deadlines: Mutex::default(),
            work: WorkQueue::default(),
            alarms: Alarms::default(),
            runtimes: Runtimes::default(),
            activity: Arc::default(),
            waiting: AtomicUsize::new(0),
            shutdown_millis: AtomicU64::new(0),
            last_id: AtomicU64::new(0),
        }
    }

    /// Returns a number that is unique in this factory.
    pub(super) fn fresh_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn fresh_owner(&self) -> OwnerId {
        OwnerId(self.fresh_id())
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    pub(super) fn observe<'a>(&self, event: impl FnOnce(&'static str) -> LockEvent<'a>) {
        self.observers.notify(event);
    }

    /// The terms of these options under the limits of this factory.
    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms, OptionsError> {
        match *options == self.options {
            true => self.default_terms.clone(),
            false => self.limits.terms(options),
        }
    }

    /// The entry of the name, made if there is none.
    pub(super) fn entry(&self, name: &LockName) -> Arc<LockEntry> {
        self.table.get_or_insert_with(name, || LockEntry::new(self.fresh_id(), name.clone(), self.config))
    }

    /// How many names this factory holds or waits for.
    pub(crate) fn active_locks(&self) -> usize {
        self.table.len()
    }

    /// Returns what this process knows of a name.
    pub(crate) fn local_view(&self, name: &LockName) -> Option<LocalView> {
        let entry = self.table.get(name)?;
        let state = lock(&entry.state);
        let hold = state.machine.holder().map(|(owner, hold, depth, deadline)| LocalHold {
            owner: Owner::new(self.process, owner),
            token: hold.token,
            depth,
            remaining: deadline.since(self.clock.now()),
            suspect: state.machine.is_suspect(),
        });
        Some(LocalView { hold, waiters: state.machine.waiters() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.activity.is_closed()
    }

    /// Whether nothing is left to do.
    pub(super) fn is_drained(&self) -> bool {
        self.activity.is_zero() && self.work.is_empty()
    }

    /// Every timekeeper looks at what is due at `at`.
    pub(super) fn set_alarm(&self, at: Moment) {
        self.alarms.move_to(at, self.clock.now());
    }

    /// Leaves work for the worker. If a blocked thread holds the worker up, the timekeeper stands in for it.
    pub(super) fn defer(&self, work: impl FnOnce(&mut Work)) {
        self.work.put(work);
        let now = self.clock.now();
        self.alarms.move_to(now + HELD_UP, now);
    }

    /// Leaves an event of an entry for the worker, from any thread.
    pub(super) fn defer_event(&self, entry: &Arc<LockEntry>, event: impl FnOnce(&mut DeferredEvents)) {
        if entry.defer(QueueKind::Woken, event) {
            self.defer(|work| work.woken.push(entry.clone()));
        }
    }

    /// Leaves the drop of a guard for the worker. Does not allocate, since room was made for every guard.
    pub(super) fn defer_drop(&self, entry: &Arc<LockEntry>, hold: HoldId) {
        if entry.defer(QueueKind::Dropped, |deferred| deferred.dropped.push(hold)) {
            self.defer(|work| work.dropped.push(entry.clone()));
        }
    }

    /// The time of a call begins: it has to be answered by `due`.
    pub(super) fn set_deadline(&self, due: Moment, id: u64, call: Arc<dyn TimedCall>, now: Moment) {
        let next = lock(&self.deadlines).insert(due, id, call);
        if next == due || next <= now {
            self.alarms.move_to(next, now);
        }
    }

    pub(super) fn clear_deadline(&self, due: Moment, id: u64) {
        let call = lock(&self.deadlines).remove(due, id);
        drop(call);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("process", &self.process).finish_non_exhaustive()
    }
}
