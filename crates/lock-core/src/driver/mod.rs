//! The only place with effects: it spawns, sleeps, reads the clock, wakes, and calls the backend.
//!
//! ```text
//!   guards, futures ──▶ feed(cell, event) ──▶ machine ──▶ commands
//!                          │ wake seats, tell observers
//!                          └ IO: polled once in place; if pending, adopted by the worker
//!   worker: the task that callers wake; carries the calls in flight (one in each runtime)
//!   timekeeper: the task that only a timer wakes; one ordered set of wake-up times, the renewals (one in each runtime)
//! ```
//!
//! A *cell* is a lock name that this process holds or waits for: a mutex over its machine and the seats of
//! waiting futures. Whoever has an event takes the mutex, handles it, lets go, and only then wakes and calls. So
//! cancelling a caller is just an event, and no caller ever carries IO that others depend on.
//!
//! Order of mutexes: shard before cell, cell before schedule and deadlines, inbox, mail and alarm last. No mutex is held
//! over an await, a waker, an observer or a call of the backend.

mod alarm;
mod backstop;
mod call;
mod cell;
mod cells;
mod feed;
mod handle;
mod hold_state;
mod inbox;
mod io;
mod quiet;
mod runtime;
mod schedule;
mod seat;
mod shutdown;
mod signals;
mod timekeeper;
mod waker_set;
mod worker;

pub(crate) use cell::Cell;
pub(crate) use handle::Handle;
pub(crate) use hold_state::HoldState;
pub(crate) use seat::{Entering, Seated, Verdict};
pub(crate) use shutdown::SHUTDOWN;
pub use shutdown::ShutdownReport;

use crate::{
    backend::{Backend, Store, SubscriberId, Subscriptions},
    clock::Clock,
    ids::ProcessId,
    inspect::{LocalHold, LocalView},
    machine::{MachineConfig, OwnerId},
    name::LockName,
    observer::Observers,
    options::{Limits, LockOptions, OptionsError},
    owner::Owner,
    random::Random,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        lock,
    },
    terms::Terms,
};
use alarm::Alarms;
use call::Deadlines;
use cells::Cells;
use inbox::Inbox;
use quiet::Quiet;
use schedule::Schedule;
use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};
use worker::Workers;

/// Everything that the locks of one factory share.
pub(crate) struct Driver {
    me: Weak<Driver>,
    pub(crate) process: ProcessId,
    pub(crate) backend: Arc<dyn Backend>,
    subscriptions: Option<Arc<dyn Subscriptions>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: LockOptions,
    /// Those of the factory's own options, made once for all of its locks.
    default_terms: Result<Terms, OptionsError>,
    pub(crate) limits: Limits,
    observers: Observers,
    rules: MachineConfig,
    random: Random,
    has_backstop: bool,
    subscriber: OnceLock<SubscriberId>,
    cells: Cells,
    schedule: Mutex<Schedule>,
    deadlines: Mutex<Deadlines>,
    inbox: Inbox,
    alarms: Alarms,
    workers: Workers,
    quiet: Quiet,
    waiting: AtomicUsize,
    next_id: AtomicU64,
    closed: AtomicBool,
    shutdown_millis: AtomicU64,
}

/// What a driver is made of.
pub(crate) struct Parts {
    pub(crate) process: ProcessId,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: LockOptions,
    pub(crate) limits: Limits,
    pub(crate) observers: Observers,
    pub(crate) rules: MachineConfig,
    pub(crate) random: Random,
    /// The clock is the real one.
    pub(crate) has_backstop: bool,
}

impl Driver {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let driver = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            process: parts.process,
            backend: parts.store.backend,
            subscriptions: parts.store.subscriptions,
            clock: parts.clock,
            options: parts.options,
            default_terms: parts.limits.terms(&parts.options),
            limits: parts.limits,
            observers: parts.observers,
            rules: parts.rules,
            random: parts.random,
            has_backstop: parts.has_backstop,
            subscriber: OnceLock::new(),
            cells: Cells::default(),
            schedule: Mutex::default(),
            deadlines: Mutex::default(),
            inbox: Inbox::default(),
            alarms: Alarms::default(),
            workers: Workers::default(),
            quiet: Quiet::default(),
            waiting: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            shutdown_millis: AtomicU64::new(0),
        });
        if let Some(subscriptions) = &driver.subscriptions {
            let listener = Arc::downgrade(&driver);
            let _ = driver.subscriber.set(subscriptions.register_listener(listener));
        }
        driver
    }

    /// A number that is unique in this factory.
    fn fresh_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn fresh_owner(&self) -> OwnerId {
        OwnerId(self.fresh_id())
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// The terms of these options under the limits of this factory.
    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms, OptionsError> {
        match *options == self.options {
            true => self.default_terms.clone(),
            false => self.limits.terms(options),
        }
    }

    /// What this process knows of a name.
    pub(crate) fn look_at(&self, name: &LockName) -> Option<LocalView> {
        let cell = self.cells.get(name)?;
        let state = lock(&cell.state);
        let hold = state.machine.holder().map(|(owner, hold, depth, deadline)| LocalHold {
            owner: Owner::new(self.process, owner),
            token: hold.token,
            depth,
            remaining: deadline.since(self.clock.now()),
            suspect: state.machine.is_suspect(),
        });
        Some(LocalView { hold, waiters: state.machine.waiters() })
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("process", &self.process).finish_non_exhaustive()
    }
}
