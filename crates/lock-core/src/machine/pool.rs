//! The permits of one pool in this process.
//!
//! Each permit is a [`Machine`] of its own: it is requested, renewed, lost and released like a lock, and only the rule by
//! which the store grants it differs. The pool keeps the order of its waiters. The first ones have a place in the store's
//! queue, and the others wait here. A wake-up goes to the first waiter, and on to the next one once that is granted.

use super::{
    Backoff, Command, Entry, Env, Event, HoldId, Machine, MachineConfig, OwnerId, Refusal, ReleaseOutcome,
    WaitPolicy, WaiterId, WatchAnswer, command::Ctx, queue::Cause, queue::Queue, watch::Watch,
};
use crate::{
    backend::{Acquired, Applied, Share},
    ids::LeaseNumber,
    machine::cleanup::{MAX_OPEN_UNDOS, MAX_UNDOS},
    time::Moment,
};
use std::{collections::BTreeMap, ops::Bound};

/// The number of waiters of this process that have a place in the store's queue. The others have their turn later than
/// waiters of other processes that came after them.
const IN_STORE: usize = 16;

/// The same for pools with a limit of 1, whose order is the reason to use them.
const IN_STORE_IF_EXCLUSIVE: usize = 1_000;

/// The state of one pool in this process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolMachine {
    config: MachineConfig,
    /// The waiters without a place in the store's queue.
    queue: Queue,
    /// A machine for each permit that is held, requested or undone, by the waiter for which it was made.
    permits: BTreeMap<WaiterId, Machine>,
    watch: Watch,
    /// That of the latest attempt.
    backoff: Backoff,
    /// The last waiter that may have another place in the store's queue than here, until all up to it have gone: a request
    /// has failed, so that a later one came first, or places may have ended during a pause.
    unordered: Option<WaiterId>,
    /// The waiter that has asked because of a wake-up, while the order is in doubt.
    asking: Option<WaiterId>,
    closed: bool,
}

/// The place of a waiter in the store's queue, by its latest reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StorePlace {
    None,
    First,
    Behind,
}

impl PoolMachine {
    /// Creates a machine that holds nothing and waits for nothing.
    #[must_use]
    pub fn new(config: MachineConfig) -> Self {
        Self {
            config: MachineConfig { pool: true, ..config },
            queue: Queue::default(),
            permits: BTreeMap::new(),
            watch: Watch::default(),
            backoff: Backoff::default(),
            unordered: None,
            asking: None,
            closed: false,
        }
    }

    /// Handles an event at `now` and adds the resulting commands to `out`.
    pub fn handle(&mut self, now: Moment, event: Event, env: &mut dyn Env, out: &mut Vec<Command>) {
        let s = &mut Ctx { now, env, out };
        match event {
            Event::Enter(entry) => self.enter(s, entry),
            Event::Leave { waiter } => {
                if self.queue.remove(waiter).is_none() {
                    self.pass_to(s, |id, _| *id == waiter, event);
                }
            }
            Event::Acquired { lease, ref outcome } => {
                let place = match outcome.as_ref().map(|reply| &reply.outcome) {
                    Ok(Acquired::Queued { remaining: None }) => StorePlace::Behind,
                    Ok(Acquired::Queued { remaining: Some(_) }) => StorePlace::First,
                    Ok(Acquired::Granted { .. } | Acquired::Busy { .. }) => StorePlace::None,
                    _ => {
                        self.order_is_in_doubt();
                        StorePlace::None
                    }
                };
                self.on_acquired(s, lease, place, event);
            }
            Event::Renewed { lease, .. } | Event::Released { lease, .. } => {
                self.pass_to_lease(s, lease, event)
            }
            Event::Expired { hold } | Event::Pin { hold } | Event::Downgrade { hold } => {
                self.pass_to_lease(s, hold.lease, event);
            }
            Event::Release { hold, .. } | Event::Drop { hold } => self.on_release(s, hold, event),
            Event::Watched(answer) => self.on_watched(s, answer),
            Event::Unwatched(answer) => self.watch.on_unwatched(s, answer),
            Event::Woken => self.wake_first(s),
            Event::Tick => self.pass_time(s),
            Event::MissedWakes | Event::Suspicion => {
                self.order_is_in_doubt();
                self.pass_to_all(s, &event);
            }
            Event::RenewEarly => self.pass_to_all(s, &event),
            Event::Shutdown => {
                self.closed = true;
                for waiter in self.queue.drain() {
                    s.refuse(waiter, Refusal::ShutDown);
                }
                self.pass_to_all(s, &event);
            }
        }
        self.advance(s);
    }

    /// Returns the time by which [`handle`](Self::handle) must be called with [`Event::Tick`], if any.
    #[must_use]
    pub fn wake_at(&self) -> Option<Moment> {
        let permits = self.permits.values().filter_map(Machine::wake_at);
        permits.chain(self.queue.next_alarm()).chain(self.watch.wake_at()).min()
    }

    /// Returns the time from which [`Event::RenewEarly`] renews a permit.
    #[must_use]
    pub fn renewable_from(&self) -> Option<Moment> {
        self.permits.values().filter_map(Machine::renewable_from).min()
    }

    /// Returns `true` if the machine can be dropped.
    #[must_use]
    pub fn is_removable(&self) -> bool {
        self.permits.is_empty() && self.queue.is_empty() && self.watch.is_off()
    }

    /// Returns `true` if nothing is held or requested, and nothing has to be undone.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.permits.values().all(Machine::is_drained)
    }

    /// Returns the number of waiters.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.queue.len() + self.permits.values().map(Machine::waiters).sum::<usize>()
    }

    /// Returns the holders in this process: owner, hold, number of guards, deadline.
    pub fn holders(&self) -> impl Iterator<Item = (OwnerId, HoldId, u32, Moment)> {
        self.permits.values().filter_map(Machine::holder)
    }

    /// Returns `true` if a permit is suspect.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.permits.values().any(Machine::is_suspect)
    }

    fn enter(&mut self, s: &mut Ctx<'_>, entry: Entry) {
        let refusal = if self.closed {
            Refusal::ShutDown
        } else if self.waiters() >= usize::try_from(self.config.max_waiters).unwrap_or(usize::MAX) {
            Refusal::TooManyWaiters
        } else if entry.wait_policy == WaitPolicy::NoWait && self.waiters() > 0 {
            Refusal::Busy
        } else if entry.wait_policy == WaitPolicy::NoWait && self.are_undos_too_many() {
            Refusal::TooManyUndos
        } else {
            return self.queue.push_queued(s.now, entry);
        };
        s.refuse(entry.waiter, refusal);
    }

    /// Returns `true` if so much is being undone that no further acquire may start.
    fn are_undos_too_many(&self) -> bool {
        let undos = self.permits.values().map(|permit| permit.cleanups.undos());
        let (open, all) = undos.fold((0, 0), |(open, all), (its_open, its)| (open + its_open, all + its));
        open >= MAX_OPEN_UNDOS || all >= MAX_UNDOS
    }

    /// Gives waiters a place in the store's queue, in their order.
    fn admit(&mut self, s: &mut Ctx<'_>) {
        let mut asking = self.permits.values().filter(|permit| permit.queue.has_queued()).count();
        while let Some(front) = self.queue.front() {
            let room = match front.terms.share {
                Some(Share { limit: 1, .. }) => IN_STORE_IF_EXCLUSIVE,
                _ => IN_STORE,
            };
            let waiter = front.waiter;
            if asking >= room || self.are_undos_too_many() {
                return;
            }
            let Some(waiting) = self.queue.remove(waiter) else { return };
            let mut permit = Machine { backoff: self.backoff.clone(), ..Machine::new(self.config) };
            permit.handle(s.now, Event::Enter(waiting.entry), s.env, s.out);
            self.permits.insert(waiter, permit);
            asking += 1;
        }
    }

    fn on_acquired(&mut self, s: &mut Ctx<'_>, lease: LeaseNumber, place: StorePlace, event: Event) {
        let Some((&waiter, permit)) = self.permits.iter_mut().find(|(_, permit)| permit.knows(lease)) else {
            return;
        };
        let was_woken = permit.is_woken();
        permit.handle(s.now, event, s.env, s.out);
        self.backoff = permit.backoff.clone();
        let still_waits = permit.queue.has_queued();
        if place != StorePlace::None {
            self.watch.want();
        }
        let has_asked = self.asking.take_if(|asking| *asking == waiter).is_some();
        if was_woken && !still_waits {
            // The wake-up came after the request of a waiter that does not need it.
            self.wake_first(s);
        } else if has_asked && place == StorePlace::Behind {
            self.wake_next(s, Bound::Excluded(waiter));
        }
    }

    fn on_release(&mut self, s: &mut Ctx<'_>, hold: HoldId, event: Event) {
        if self.permits.values().any(|permit| permit.knows(hold.lease)) {
            return self.pass_to_lease(s, hold.lease, event);
        }
        let ticket = if let Event::Release { ticket, .. } = event { Some(ticket) } else { None };
        s.emit(Command::ReleaseAnswered { ticket, answer: Ok(ReleaseOutcome::AlreadyExpired) });
    }

    fn on_watched(&mut self, s: &mut Ctx<'_>, answer: WatchAnswer) {
        self.watch.on_watched(s, answer);
        if self.watch.is_on() {
            // A release may have happened between the reply and the acknowledgement.
            self.wake_first(s);
        }
    }

    fn order_is_in_doubt(&mut self) {
        self.unordered = self.permits.keys().next_back().copied();
    }

    /// Lets the first waiter ask again.
    fn wake_first(&mut self, s: &mut Ctx<'_>) {
        self.wake_next(s, Bound::Unbounded);
    }

    /// Lets the first waiter after this one ask again. While the order is in doubt, another one may be first in the store:
    /// then each waiter asks in turn, until one is granted, or hears that it is the first.
    fn wake_next(&mut self, s: &mut Ctx<'_>, after: Bound<WaiterId>) {
        let waiters = self.permits.range_mut((after, Bound::Unbounded));
        for (waiter, permit) in waiters.filter(|(_, permit)| permit.queue.has_queued()) {
            permit.handle(s.now, Event::Woken, s.env, s.out);
            // The wait may have been over; then the wake-up is for the next one.
            if permit.queue.has_queued() {
                self.asking =
                    Some(*waiter).filter(|waiter| self.unordered.is_some_and(|last| *waiter < last));
                return;
            }
        }
    }

    fn pass_time(&mut self, s: &mut Ctx<'_>) {
        while let Some(overdue) = self.queue.pop_alarm(s.now) {
            let refusal = match overdue.cause {
                Cause::WaitOver if !self.queue.is_outage() => Refusal::Timeout(Applied::No),
                Cause::WaitOver | Cause::OutageBudget => Refusal::Outage,
            };
            s.refuse(overdue.waiter, refusal);
        }
        let is_due = |permit: &Machine| permit.wake_at().is_some_and(|at| at <= s.now);
        for permit in self.permits.values_mut() {
            if is_due(permit) {
                permit.handle(s.now, Event::Tick, s.env, s.out);
            }
        }
    }

    fn pass_to(&mut self, s: &mut Ctx<'_>, chosen: impl Fn(&WaiterId, &Machine) -> bool, event: Event) {
        if let Some((_, permit)) = self.permits.iter_mut().find(|(id, permit)| chosen(id, permit)) {
            permit.handle(s.now, event, s.env, s.out);
        }
    }

    fn pass_to_lease(&mut self, s: &mut Ctx<'_>, lease: LeaseNumber, event: Event) {
        self.pass_to(s, |_, permit| permit.knows(lease), event);
    }

    fn pass_to_all(&mut self, s: &mut Ctx<'_>, event: &Event) {
        for permit in self.permits.values_mut() {
            permit.handle(s.now, event.clone(), s.env, s.out);
        }
    }

    /// Admits waiters and drops machines that have nothing left to do. Every event ends here.
    fn advance(&mut self, s: &mut Ctx<'_>) {
        self.permits.retain(|_, permit| !permit.is_removable());
        match self.permits.values().filter_map(|permit| permit.queue.outage_since()).min() {
            Some(since) => self.queue.outage_began(since),
            None => self.queue.outage_over(),
        }
        self.admit(s);
        let first = self.permits.iter().find(|(_, permit)| permit.queue.has_queued()).map(|(id, _)| *id);
        self.unordered.take_if(|last| first.is_none_or(|first| first > *last));
        if self.config.push {
            self.watch.tend(s, self.waiters() > 0, self.closed);
        }
    }
}
