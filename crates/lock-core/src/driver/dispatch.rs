//! Passes an event to an entry's machine, executes the resulting commands, and tells the observers.

use super::{
    entry::{AcquireResult, DeferredEvent, EntryState, LockEntry, WaiterSlot},
    hold_state::HoldState,
    request::{IoPolicy, Request},
    shared::Shared,
};
use crate::{
    backend::{BackendError, MissedWakes, Operation, WakeListener},
    fifo_map::FifoMap,
    ids::{FencingToken, ProcessId},
    machine::{Command, Env, Event, Grant, HoldId, Notice, WaiterId},
    name::LockName,
    observer::{LockEventKind, Notable, ReleaseKind, WakeSource},
    owner::Owner,
    sync::lock,
    time::{Moment, UtcTime},
    wake::wake,
};
use std::{cell::Cell, collections::VecDeque, sync::Arc, task::Waker, time::Duration};

thread_local! {
    /// The buffers of this thread's latest dispatch, kept for their capacity.
    static BUFFERS: Cell<Option<Box<PendingEffects>>> = const { Cell::new(None) };
}

/// The number of commands up to which a dispatch keeps its buffers.
const MAX_KEPT: usize = 64;

/// Effects to carry out after the entry's mutex is released.
#[derive(Default)]
struct PendingEffects {
    /// The machine's commands, until they are applied.
    commands: Vec<Command>,
    wakers: Vec<Waker>,
    /// Holds that ended and whose waiting tasks must be woken.
    ended: Vec<Arc<HoldState>>,
    notifications: Vec<Notification>,
    requests: Vec<Request>,
    /// Events of requests that were answered immediately.
    events: VecDeque<Event>,
    /// A hold that the machine extended after a task had found that it had expired.
    expired: Option<HoldId>,
    /// Set when the machine became busy (`true`) or drained (`false`).
    busy: Option<bool>,
    /// `true` if the entry can be removed without loss. A waiting future also keeps an entry, and checks again when
    /// it is dropped.
    removable: bool,
}

impl PendingEffects {
    /// Returns empty buffers. Those of a dispatch inside another one are new.
    fn take() -> Box<Self> {
        BUFFERS.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    fn observe(&mut self, kind: LockEventKind<'static>) {
        self.notifications.push(Notification::Event(kind));
    }

    /// Keeps the buffers, which are empty, for the thread's next dispatch, unless they are large. A command has few
    /// effects, so the room for commands tells the size of all.
    fn keep(self: Box<Self>) {
        if self.commands.capacity() <= MAX_KEPT {
            let _ = BUFFERS.try_with(|buffers| buffers.set(Some(self)));
        }
    }
}

/// News for observers and the log, kept until no mutex is held.
enum Notification {
    Event(LockEventKind<'static>),
    /// A failed renewal of a hold, and the number of failures since the latest success.
    RenewalFailed {
        token: FencingToken,
        remaining: Duration,
        failures: u32,
        error: Option<Arc<BackendError>>,
    },
    LongWait {
        waited: Duration,
    },
}

/// The machine's access to its environment.
struct DriverEnv<'a> {
    shared: &'a Shared,
    entry: &'a LockEntry,
    waiters: &'a FifoMap<WaiterId, WaiterSlot>,
}

impl Env for DriverEnv<'_> {
    fn address(&self) -> (LockName, ProcessId) {
        (self.entry.stored.clone(), self.shared.process)
    }

    fn unique(&mut self) -> Option<u64> {
        self.shared.random.unique()
    }

    fn jitter(&mut self) -> u64 {
        self.shared.random.jitter()
    }

    // Called while the entry's mutex is held, which is allowed because the backend only reads an estimate.
    fn server_now(&mut self) -> UtcTime {
        self.shared.backend.server_now(&self.entry.stored).unwrap_or_else(|| self.shared.clock.wall())
    }

    fn unclaimed(&mut self, hold: HoldId, granted_by: Moment) -> u32 {
        let unclaimed = |slot: &WaiterSlot| match slot {
            WaiterSlot::Ready(AcquireResult::Granted(granted), at) => {
                granted.id() == hold && *at <= granted_by
            }
            WaiterSlot::Ready(..) | WaiterSlot::Waiting(_) => false,
        };
        u32::try_from(self.waiters.iter().filter(|(_, slot)| unclaimed(slot)).count()).unwrap_or(u32::MAX)
    }
}

impl Shared {
    /// Handles the event and all events that follow from operations that are answered immediately.
    pub(super) fn dispatch(self: &Arc<Self>, entry: &Arc<LockEntry>, event: Event, policy: IoPolicy) {
        let _active = self.activity.guard();
        let mut effects = PendingEffects::take();
        let mut next = self.next_deferred(entry);
        match next {
            Some(_) => effects.events.push_back(event),
            None => next = Some(event),
        }
        while let Some(event) = next {
            self.handle(entry, event, &mut effects);
            // An operation that is answered immediately changes the times again.
            let starts = !effects.requests.is_empty();
            self.carry_out(entry, &mut effects, policy);
            next = self.next_deferred(entry).or_else(|| effects.events.pop_front());
            if starts && next.is_none() {
                self.reschedule(entry, &mut lock(&entry.state), self.clock.now());
            }
        }
        let removable = std::mem::take(&mut effects.removable);
        effects.keep();
        if removable {
            self.table.remove_if_idle(entry);
        }
    }

    /// Takes the next deferred event. Deferred events are handled before others, so that a task that drops a guard and
    /// tries again finds the lock free.
    fn next_deferred(&self, entry: &LockEntry) -> Option<Event> {
        entry.next_deferred().map(|event| match event {
            DeferredEvent::Dropped(hold) => {
                self.agenda.guard_gone();
                Event::Drop { hold }
            }
            DeferredEvent::Suspicion => Event::Suspicion,
            DeferredEvent::Woken => Event::Woken,
            DeferredEvent::MissedWakes => Event::MissedWakes,
        })
    }

    fn carry_out(self: &Arc<Self>, entry: &Arc<LockEntry>, effects: &mut PendingEffects, policy: IoPolicy) {
        if let Some(busy) = effects.busy.take() {
            self.activity.entry_is_busy(busy);
        }
        // Notified before any task is woken, so that an observer learns of a grant before its holder can end it.
        effects.notifications.drain(..).for_each(|notification| self.notify(&entry.name, notification));
        effects.wakers.drain(..).for_each(wake);
        effects.ended.drain(..).for_each(|hold| hold.wake_waiting());
        if let Some(hold) = effects.expired.take() {
            effects.events.push_back(Event::Expired { hold });
        }
        for request in effects.requests.drain(..) {
            effects.events.extend(self.start(entry, request, policy));
        }
    }

    fn handle(&self, entry: &Arc<LockEntry>, event: Event, effects: &mut PendingEffects) {
        let mut commands = std::mem::take(&mut effects.commands);
        let mut state = lock(&entry.state);
        // Read while the mutex is held, so that the machine never sees time go backwards.
        let now = self.clock.now();
        let polled = matches!(event, Event::Tick);
        match event {
            Event::Woken => effects.observe(LockEventKind::WakeUp { source: WakeSource::Push }),
            Event::Acquired { outcome: Ok(_), .. } => state.errors.acquire = None,
            Event::Renewed { outcome: Ok(_), .. } => state.errors.renewal = None,
            _ => {}
        }
        {
            let EntryState { machine, waiters, .. } = &mut *state;
            let mut env = DriverEnv { shared: self, entry, waiters };
            machine.handle(now, event, &mut env, &mut commands);
        }
        for command in commands.drain(..) {
            if polled && matches!(command, Command::Io { operation: Operation::Acquire(_), .. }) {
                effects.observe(LockEventKind::WakeUp { source: WakeSource::Poll });
            }
            self.apply(entry, &mut state, command, now, effects);
        }
        effects.commands = commands;
        if effects.requests.is_empty() {
            self.reschedule(entry, &mut state, now);
        }
        let busy = !state.machine.is_drained();
        effects.busy = (std::mem::replace(&mut state.busy, busy) != busy).then_some(busy);
        effects.removable = state.is_removable(entry);
    }

    fn apply(
        &self,
        entry: &Arc<LockEntry>,
        state: &mut EntryState,
        command: Command,
        now: Moment,
        effects: &mut PendingEffects,
    ) {
        match command {
            Command::Io { operation, timeout } => {
                effects.requests.push(Request::Operation { operation, timeout, sent: now });
            }
            Command::Watch => effects.requests.push(Request::Watch),
            Command::Unwatch => effects.requests.push(Request::Unwatch),
            Command::Grant { waiter, grant } => self.grant(entry, state, waiter, grant, now, effects),
            Command::Refuse { waiter, refusal } => {
                let error = state.errors.acquire.clone();
                if let Some(slot) = state.waiters.get_mut(&waiter) {
                    effects.wakers.extend(slot.set(AcquireResult::Refused(refusal, error), now));
                }
            }
            Command::Extended { hold: id, deadline } => {
                if let Some(hold) = state.hold(id)
                    && !hold.extend(deadline)
                {
                    effects.expired = Some(id);
                }
            }
            Command::Ended { hold: id, how } => {
                if let Some(hold) = state.take_hold(id) {
                    hold.end(how);
                    effects.ended.push(hold.clone());
                    let (token, lease, held) = (hold.token, hold.lease(), now.since(hold.since));
                    effects.observe(LockEventKind::Ended { token, lease, end: how, held });
                }
            }
            Command::ReleaseAnswered { ticket, answer } => {
                let kind = if ticket.is_some() { ReleaseKind::Explicit } else { ReleaseKind::Dropped };
                effects.observe(LockEventKind::GuardReleased { outcome: answer.ok(), kind });
                if let Some(slot) = ticket.and_then(|ticket| state.releases.get_mut(&ticket)) {
                    effects.wakers.extend(slot.set(answer));
                }
            }
            Command::Notice(notice) => {
                effects.notifications.push(match notice {
                    Notice::Renewal { outcome, took, remaining } => {
                        Notification::Event(LockEventKind::Renewal { outcome, took, remaining })
                    }
                    Notice::SelfDeadlock { token, waited } => {
                        Notification::Event(LockEventKind::SelfDeadlock { token, waited })
                    }
                    Notice::RenewalFailed { token, remaining, failures } => {
                        let error = state.errors.renewal.clone();
                        Notification::RenewalFailed { token, remaining, failures, error }
                    }
                    Notice::LongWait { waited } => Notification::LongWait { waited },
                });
            }
        }
    }

    fn grant(
        &self,
        entry: &Arc<LockEntry>,
        state: &mut EntryState,
        waiter: WaiterId,
        grant: Grant,
        now: Moment,
        effects: &mut PendingEffects,
    ) {
        let hold = match state.hold(grant.hold) {
            Some(hold) => hold.clone(),
            None => {
                let who = (entry.name.clone(), Owner::new(self.process, grant.owner));
                let times = (now, grant.deadline, grant.max_hold_at);
                let hold = HoldState::new(who, grant.hold, times, self.for_holds.clone());
                let (token, lease) = (hold.token, hold.lease());
                effects.observe(LockEventKind::Granted { token, lease, source: grant.by });
                let hold = Arc::new(hold);
                state.add_hold(grant.hold, hold.clone());
                hold
            }
        };
        entry.guard_made();
        self.agenda.guard_made();
        match state.waiters.get_mut(&waiter) {
            Some(slot) => effects.wakers.extend(slot.set(AcquireResult::Granted(hold), now)),
            // A slot is removed before the machine learns that its future was dropped. The grant is then released.
            None => self.defer_drop(entry, grant.hold),
        }
    }

    /// Updates the entry's times in the agenda. Called while the entry's mutex is held, so that the times from an
    /// earlier event cannot replace those from a later one.
    fn reschedule(&self, entry: &Arc<LockEntry>, state: &mut EntryState, now: Moment) {
        let times = state.machine.times();
        if times == state.scheduled {
            return;
        }
        self.agenda.set_times(entry, state.scheduled, times, now);
        state.scheduled = times;
    }

    fn notify(&self, name: &LockName, notification: Notification) {
        match notification {
            Notification::Event(kind) => self.observe(name, kind),
            Notification::RenewalFailed { token, remaining, failures, error } => {
                let error = error.as_deref();
                self.observe(name, LockEventKind::RenewalFailed { token, remaining, error });
                self.log(&match failures {
                    1 => Notable::Suspect { name, token, remaining, error },
                    _ => Notable::SuspectStill { error },
                });
            }
            Notification::LongWait { waited } => self.log(&Notable::LongWait { name, waited }),
        }
    }

    /// Reports that the store was changed by force: the hold on this name is renewed before it is relied on.
    pub(crate) fn suspect(&self, name: &LockName) {
        if let Some(entry) = self.table.get(name) {
            self.defer_event(&entry, |deferred| deferred.suspicion = true);
        }
    }
}

/// Handles wake-ups, in the store's task that reads them.
impl WakeListener for Shared {
    fn released(&self, stored: &LockName) {
        let Some(entry) = self.unstored(stored).and_then(|name| self.table.get(&name)) else { return };
        match self.me.upgrade().filter(|_| self.wakes_in_task && !self.is_closed()) {
            // A detour through the keeper would cost a task switch.
            Some(shared) => shared.dispatch(&entry, Event::Woken, IoPolicy::Inline),
            None => self.defer_event(&entry, |deferred| deferred.woken = true),
        }
    }

    fn wake_all(&self, reason: MissedWakes) {
        let source = match reason {
            MissedWakes::Reconnected => WakeSource::Reconnected,
            MissedWakes::Lagged => WakeSource::Lagged,
        };
        for entry in self.table.all() {
            self.observe(&entry.name, LockEventKind::WakeUp { source });
            self.defer_event(&entry, |deferred| deferred.missed_wakes = true);
        }
    }

    fn server_restarted(&self) {
        for entry in self.table.all() {
            self.defer_event(&entry, |deferred| {
                deferred.missed_wakes = true;
                deferred.suspicion = true;
            });
        }
    }
}
