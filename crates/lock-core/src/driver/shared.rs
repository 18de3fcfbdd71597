//! The state shared by a factory's locks.

use super::{
    activity::ActivityCounter,
    agenda::Agenda,
    card::OwnCard,
    entry::{DeferredEvents, LockEntry, LockTable, QueueKind},
    hold_state::HoldContext,
    runtime::{Home, Place, has_running_timer},
};
use crate::{
    backend::{Backend, Directory, Store, SubscriberId, Subscriptions},
    clock::Clock,
    error::{LockError, LockErrorKind},
    ids::{ProcessId, Random},
    inspect::{Checks, LocalHold, ProcessCard},
    machine::{HoldId, MachineConfig, OwnerId},
    name::{LockName, NameError, Prefix},
    observer::{LockEventKind, Notable, Observers, sum_up},
    options::{Limits, LockOptions, OptionsError, Terms},
    owner::Owner,
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering},
        enter, lock,
    },
    time::Moment,
    wake::wake,
};
use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, OnceLock, Weak},
    task::{Context, Wake, Waker},
    time::Duration,
};

pub(crate) struct Shared {
    pub(crate) process: ProcessId,
    /// The operating system's id of the process that made the factory.
    made_in: u32,
    pub(crate) backend: Arc<dyn Backend>,
    /// `true` if the store's wake-ups come from a task in which requests may be submitted.
    pub(super) wakes_in_task: bool,
    pub(crate) directory: Option<Arc<dyn Directory>>,
    /// `None` if the store has no directory, or if the card is turned off.
    pub(super) own_card: Option<Arc<OwnCard>>,
    pub(super) subscriptions: Option<Arc<dyn Subscriptions>>,
    pub(super) subscriber: OnceLock<SubscriberId>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: LockOptions,
    /// The terms of the factory's default options, shared by all of its locks.
    pub(super) default_terms: Result<Terms, OptionsError>,
    pub(crate) limits: Limits,
    /// The prefix of the names in the store.
    prefix: Option<Prefix>,
    pub(super) observers: Observers,
    pub(super) config: MachineConfig,
    pub(super) random: Random,
    pub(super) home: Home,
    /// A reference to itself, for wake-ups.
    pub(super) me: Weak<Self>,
    pub(super) for_holds: Arc<HoldContext>,
    pub(super) table: LockTable,
    pub(super) agenda: Agenda,
    pub(super) activity: Arc<ActivityCounter>,
    pub(super) waiting: AtomicUsize,
    pub(super) shutdown_millis: AtomicU64,
    pub(crate) checks: Checks,
    last_id: AtomicU64,
}

/// The parts from which a factory is built.
pub(crate) struct Parts {
    pub(crate) process: ProcessId,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: LockOptions,
    pub(crate) limits: Limits,
    /// The prefix of the names in the store.
    pub(crate) prefix: Option<Prefix>,
    pub(crate) observers: Observers,
    pub(crate) config: MachineConfig,
    pub(crate) random: Random,
    pub(crate) place: Place,
    /// The card of this process, unless it is turned off.
    pub(crate) card: Option<ProcessCard>,
}

impl Shared {
    pub(super) fn new(parts: Parts, me: Weak<Self>) -> Self {
        let Store { backend, subscriptions, directory, .. } = parts.store;
        let own_card = directory.clone().zip(parts.card);
        let own_card = own_card.map(|(directory, card)| {
            Arc::new(OwnCard::new(directory, card, parts.process, parts.clock.clone()))
        });
        let for_holds = HoldContext { clock: parts.clock.clone(), watchdog: me.clone() };
        Self {
            process: parts.process,
            made_in: std::process::id(),
            wakes_in_task: backend.capabilities().wakes_in_task,
            backend,
            directory,
            own_card,
            subscriptions,
            subscriber: OnceLock::new(),
            clock: parts.clock,
            options: parts.options,
            default_terms: parts.limits.terms(&parts.options),
            limits: parts.limits,
            prefix: parts.prefix,
            observers: parts.observers,
            config: parts.config,
            random: parts.random,
            home: Home::new(parts.place),
            me,
            for_holds: Arc::new(for_holds),
            table: LockTable::default(),
            agenda: Agenda::default(),
            activity: Arc::default(),
            waiting: AtomicUsize::new(0),
            shutdown_millis: AtomicU64::new(0),
            checks: Checks::default(),
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

    /// Returns `true` in a forked child, whose copies of guards must not affect the locks of its parent. This is a
    /// system call, so acquires and the ends of guards ask, and `is_held()` does not.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.made_in
    }

    /// Returns an error in a forked child.
    pub(crate) fn check_process(&self) -> Result<(), LockError> {
        if !self.is_forked() {
            return Ok(());
        }
        let detail =
            format!("it was made in process {}, and this is process {}", self.made_in, std::process::id());
        Err(LockError::new(LockErrorKind::Forked).detail(detail))
    }

    /// Draws random bits for jitter.
    pub(crate) fn jitter(&self) -> u64 {
        self.random.jitter()
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    pub(crate) fn observe(&self, name: &LockName, kind: LockEventKind<'_>) {
        if let Some(sum_up_at) = self.observers.notify(name, kind) {
            self.agenda.wake_by(sum_up_at, self.clock.now());
        }
    }

    /// Logs a line that is no event for observers.
    pub(crate) fn log(&self, notable: &Notable<'_>) {
        if let Some(sum_up_at) = self.observers.log(notable) {
            self.agenda.wake_by(sum_up_at, self.clock.now());
        }
    }

    /// Sums up the warnings that were logged at debug and whose period is over at `now`.
    pub(super) fn sum_up_warnings(&self, now: Moment) {
        let due = self.observers.take_due(now);
        if due.is_empty() {
            return;
        }
        let entries = self.table.all();
        let suspect = entries.iter().filter(|entry| lock(&entry.state).machine.is_suspect()).count();
        let suspect = suspect.try_into().unwrap_or(u64::MAX);
        due.iter().for_each(|sum| sum_up(sum, suspect));
    }

    /// Returns the terms that result from these options under this factory's limits.
    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms, OptionsError> {
        match *options == self.options {
            true => self.default_terms.clone(),
            false => self.limits.terms(options),
        }
    }

    /// Returns the name in the store.
    pub(crate) fn stored(&self, name: &LockName) -> LockName {
        self.prefix.as_ref().map_or_else(|| name.clone(), |prefix| prefix.stored(name))
    }

    /// Returns the beginning of the names in the store that begin with `start` here.
    pub(crate) fn stored_start(&self, start: &str) -> String {
        self.prefix.as_ref().map_or_else(|| start.to_owned(), |prefix| prefix.stored_start(start))
    }

    /// Returns the name that is stored under `stored`, if it has the factory's prefix.
    pub(crate) fn unstored(&self, stored: &LockName) -> Option<LockName> {
        match &self.prefix {
            Some(prefix) => prefix.unstored(stored),
            None => Some(stored.clone()),
        }
    }

    /// Checks that a name and the factory's prefix are not too long together.
    pub(crate) fn check_name(&self, name: &LockName) -> Result<(), NameError> {
        self.prefix.as_ref().map_or(Ok(()), |prefix| prefix.check(name))
    }

    /// Returns the entry for the name, and creates it if needed.
    pub(super) fn entry(&self, name: &LockName) -> Arc<LockEntry> {
        let new = || LockEntry::new(self.fresh_id(), name.clone(), self.stored(name), self.config);
        self.table.get_or_insert_with(name, new)
    }

    /// Returns the number of names that this factory holds or waits for.
    pub(crate) fn active_locks(&self) -> usize {
        self.table.len()
    }

    /// Returns this process's holds of a name, and the number of its waiters.
    pub(crate) fn local_view(&self, name: &LockName) -> (Vec<LocalHold>, usize) {
        self.table.get(name).map_or((Vec::new(), 0), |entry| self.view_of(&entry))
    }

    /// Returns the locks that this factory holds.
    pub(crate) fn local_holds(&self) -> BTreeMap<LockName, LocalHold> {
        let locks = self.table.all().into_iter().filter(|entry| !entry.name.is_pool());
        let held = |entry: Arc<LockEntry>| Some((entry.name.clone(), self.view_of(&entry).0.pop()?));
        locks.filter_map(held).collect()
    }

    fn view_of(&self, entry: &LockEntry) -> (Vec<LocalHold>, usize) {
        let state = lock(&entry.state);
        let now = self.clock.now();
        let suspect = state.machine.is_suspect();
        let holds = state.machine.holders().into_iter().map(|(owner, id, depth, deadline)| LocalHold {
            owner: Owner::new(self.process, owner),
            token: id.token,
            depth,
            held_for: state.hold(id).map_or(Duration::ZERO, |hold| now.since(hold.since)),
            remaining: deadline.since(now),
            suspect,
        });
        (holds.collect(), state.machine.waiters())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.activity.is_closed()
    }

    /// Returns `true` if no work is left.
    pub(super) fn is_drained(&self) -> bool {
        self.activity.is_zero() && self.agenda.is_empty()
    }

    /// Polls `work` in the caller's runtime or, outside of one with a timer, in the context of this factory's.
    pub(crate) async fn in_runtime<T>(&self, work: impl Future<Output = T>) -> Result<T, LockError> {
        let context = if has_running_timer() { None } else { Some(self.home.chosen()?) };
        let mut work = pin!(work);
        let polled = poll_fn(|cx| match &context {
            Some(worker) => {
                let waker = Waker::from(Arc::new(Caller(cx.waker().clone())));
                enter(worker.handle(), || work.as_mut().poll(&mut Context::from_waker(&waker)))
            }
            None => work.as_mut().poll(cx),
        });
        Ok(polled.await)
    }

    /// Queues an entry's event for the keeper, from any thread.
    pub(super) fn defer_event(&self, entry: &Arc<LockEntry>, event: impl FnOnce(&mut DeferredEvents)) {
        if entry.defer(QueueKind::Woken, event) {
            self.agenda.put(|work| work.woken.push(entry.clone()));
        }
    }

    /// Queues the drop of a guard for the keeper. Does not allocate, since space was reserved for every guard.
    pub(super) fn defer_drop(&self, entry: &Arc<LockEntry>, hold: HoldId) {
        if entry.defer(QueueKind::Dropped, |deferred| deferred.dropped.push(hold)) {
            self.agenda.put(|work| work.dropped.push(entry.clone()));
        }
    }
}

/// The task of a caller that waits with a timer of another runtime, usually the keeper's: the panic of a waker would
/// end that runtime's thread.
struct Caller(Waker);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        wake(self.0.clone());
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("process", &self.process).finish_non_exhaustive()
    }
}
