//! Takes an event to the machine of a cell and does what it commands.

use super::{
    Driver, HoldState, Verdict,
    cell::{Cell, CellState, MailItem},
    io::Op,
    seat::{ReleaseSeat, Seat},
    waker_set::wake,
};
use crate::{
    backend::BackendError,
    ids::LeaseId,
    machine::{Command, Env, Event, Grant, GrantSource, HoldEnd, HoldId, Notice, ReleaseAnswer, WaiterId},
    name::LockName,
    observer::{LockEvent, ReleaseKind, WakeSource},
    owner::Owner,
    sync::lock,
    time::{Moment, ServerTime},
    token::FencingToken,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    task::Waker,
};

/// Who carries the IO of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Io {
    /// The caller polls it once in place.
    Here,
    /// The worker, since the caller is being dropped and may be outside a runtime.
    Worker,
    /// Nobody: there is no worker any more, and leases end by themselves.
    Nobody,
}

/// What is left to do when the mutex of the cell is let go.
#[derive(Default)]
struct After {
    wakers: Vec<Waker>,
    /// Holds that ended: who waits for that is told.
    ended: Vec<Arc<HoldState>>,
    told: Vec<Told>,
    ops: Vec<Op>,
    /// Somebody saw the deadline of this hold pass before the machine extended it.
    expired: Option<HoldId>,
    /// The machine became busy, or quiet.
    busy: Option<bool>,
}

/// What observers are told.
enum Told {
    Granted {
        token: FencingToken,
        lease: LeaseId,
        by: GrantSource,
    },
    Ended {
        hold: Arc<HoldState>,
        how: HoldEnd,
    },
    Released {
        answer: ReleaseAnswer,
        by: ReleaseKind,
    },
    Wake(WakeSource),
    /// And what the store said last.
    Notice(Notice, Option<Arc<BackendError>>),
}

struct World<'a> {
    driver: &'a Driver,
    name: &'a LockName,
    seats: &'a BTreeMap<WaiterId, Seat>,
}

impl Env for World<'_> {
    fn random(&mut self) -> u64 {
        self.driver.random.number()
    }

    fn server_now(&mut self) -> ServerTime {
        self.driver.backend.server_now(self.name).unwrap_or_else(|| self.driver.clock.wall())
    }

    fn unclaimed(&mut self, hold: HoldId, granted_by: Moment) -> u32 {
        let unclaimed = |seat: &&Seat| match seat {
            Seat::Ready(Verdict::Granted(granted), at) => granted.id() == hold && *at <= granted_by,
            Seat::Ready(..) | Seat::Waiting(_) => false,
        };
        u32::try_from(self.seats.values().filter(unclaimed).count()).unwrap_or(u32::MAX)
    }
}

impl Driver {
    /// Handles the event, and all that follow from IO that is answered at once.
    pub(super) fn feed(self: &Arc<Self>, cell: &Arc<Cell>, event: Event, io: Io) {
        let _active = self.active();
        let mut events = VecDeque::from([event]);
        while let Some(event) = self.next_mail(cell).or_else(|| events.pop_front()) {
            let after = self.handle(cell, event);
            if let Some(busy) = after.busy {
                self.cell_is_busy(busy);
            }
            // Before anybody is woken: an observer hears of a grant before its holder can end it.
            after.told.into_iter().for_each(|told| self.tell(cell, told));
            after.wakers.into_iter().for_each(wake);
            after.ended.iter().for_each(|hold| hold.wake_waiting());
            if let Some(hold) = after.expired {
                events.push_back(Event::Expired { hold });
            }
            for op in after.ops {
                match (io, op) {
                    (Io::Nobody, _) => {}
                    (_, op @ Op::Renew { .. }) => {
                        self.inbox.put_renewal(cell, op);
                        self.set_alarm(Moment::START);
                    }
                    (Io::Worker, op) => self.leave(|letters| letters.ops.push((cell.clone(), op))),
                    (Io::Here, op) => events.extend(self.start(cell, op)),
                }
            }
        }
        self.forget_if_idle(cell);
    }

    /// Dropped guards and wake-ups come first, so that who drops a guard and tries again finds the lock free.
    fn next_mail(&self, cell: &Cell) -> Option<Event> {
        cell.next_mail().map(|item| match item {
            MailItem::Dropped(hold) => {
                self.inbox.guard_gone();
                Event::Drop { hold }
            }
            MailItem::Suspicion => Event::Suspicion,
            MailItem::Woken => Event::Woken,
            MailItem::MissedWakes => Event::MissedWakes,
        })
    }

    fn handle(&self, cell: &Arc<Cell>, event: Event) -> After {
        let mut after = After::default();
        let mut commands = Vec::new();
        let mut state = lock(&cell.state);
        // Read under the mutex: a machine's time does not go back.
        let now = self.clock.now();
        let polled = matches!(event, Event::Tick);
        match event {
            Event::Woken => after.told.push(Told::Wake(WakeSource::Push)),
            Event::Acquired { outcome: Ok(_), .. } => state.errors.acquire = None,
            Event::Renewed { outcome: Ok(_), .. } => state.errors.renewal = None,
            _ => {}
        }
        {
            let CellState { machine, seats, .. } = &mut *state;
            machine.handle(now, event, &mut World { driver: self, name: &cell.name, seats }, &mut commands);
        }
        for command in commands {
            if polled && matches!(command, Command::TryAcquire { .. }) {
                after.told.push(Told::Wake(WakeSource::Poll));
            }
            self.apply(cell, &mut state, command, now, &mut after);
        }
        self.reschedule(cell, &mut state, now);
        let busy = !state.machine.is_quiet();
        after.busy = (std::mem::replace(&mut state.busy, busy) != busy).then_some(busy);
        after
    }

    fn apply(
        &self,
        cell: &Arc<Cell>,
        state: &mut CellState,
        command: Command,
        now: Moment,
        after: &mut After,
    ) {
        match command {
            Command::TryAcquire { lease, terms, not_after, mode } => {
                after.ops.push(Op::TryAcquire { lease, terms, not_after, mode });
            }
            Command::Renew { lease, terms, not_after, sent } => {
                after.ops.push(Op::Renew { lease, terms, not_after, sent });
            }
            Command::Release { lease, depth_left, notify, timeout } => {
                after.ops.push(Op::Release { lease, depth_left, notify, timeout });
            }
            Command::Watch => after.ops.push(Op::Watch),
            Command::Unwatch => after.ops.push(Op::Unwatch),
            Command::Grant { waiter, grant } => self.grant(cell, state, waiter, grant, now, after),
            Command::Refuse { waiter, refusal } => {
                let error = state.errors.acquire.clone();
                if let Some(seat) = state.seats.get_mut(&waiter) {
                    after.wakers.extend(seat.decide(Verdict::Refused(refusal, error), now));
                }
            }
            Command::Extended { hold: id, deadline } => {
                if let Some(hold) = state.hold.as_ref().filter(|hold| hold.id() == id)
                    && !hold.extend(deadline)
                {
                    after.expired = Some(id);
                }
            }
            Command::Ended { hold: id, how } => {
                if let Some(hold) = state.hold.take_if(|hold| hold.id() == id) {
                    hold.end(how);
                    after.ended.push(hold.clone());
                    after.told.push(Told::Ended { hold, how });
                }
            }
            Command::ReleaseAnswered { ticket, answer } => {
                let by = if ticket.is_some() { ReleaseKind::Explicit } else { ReleaseKind::Dropped };
                after.told.push(Told::Released { answer, by });
                if let Some(seat) = ticket.and_then(|ticket| state.releases.get_mut(&ticket))
                    && let ReleaseSeat::Waiting(waker) =
                        std::mem::replace(seat, ReleaseSeat::Answered(answer))
                {
                    after.wakers.extend(waker);
                }
            }
            Command::Notice(notice) => after.told.push(Told::Notice(notice, state.errors.renewal.clone())),
        }
    }

    fn grant(
        &self,
        cell: &Arc<Cell>,
        state: &mut CellState,
        waiter: WaiterId,
        grant: Grant,
        now: Moment,
        after: &mut After,
    ) {
        let hold = match &state.hold {
            Some(hold) if hold.id() == grant.hold => hold.clone(),
            _ => {
                let lease = LeaseId::new(self.process, grant.hold.lease);
                let who = (cell.name.clone(), Owner::new(self.process, grant.owner));
                let what = (grant.hold.token, lease);
                let hold = HoldState::new(
                    who,
                    what,
                    (now, grant.deadline, grant.max_hold_at),
                    self.me.clone(),
                    self.clock.clone(),
                );
                after.told.push(Told::Granted { token: grant.hold.token, lease, by: grant.by });
                state.hold.insert(Arc::new(hold)).clone()
            }
        };
        match state.seats.get_mut(&waiter) {
            Some(seat) => {
                cell.guard_made();
                self.inbox.guard_made();
                after.wakers.extend(seat.decide(Verdict::Granted(hold), now));
            }
            // A seat is taken out before the machine is told that its future left; then this grant goes back.
            None => self.give_back(cell, grant.hold),
        }
    }

    fn give_back(&self, cell: &Arc<Cell>, hold: HoldId) {
        cell.guard_made();
        self.inbox.guard_made();
        self.leave_drop(cell, hold);
    }

    /// Under the mutex of the cell, so that two events cannot exchange their wake-up times.
    fn reschedule(&self, cell: &Arc<Cell>, state: &mut CellState, now: Moment) {
        let wake = state.machine.wake_at();
        if wake == state.scheduled {
            return;
        }
        let next = lock(&self.schedule).set(cell, state.scheduled, wake);
        state.scheduled = wake;
        // An earlier one that is overdue has no timer that fires at once: the machine was suspended.
        if let Some(next) = next.filter(|next| Some(*next) == wake || *next <= now) {
            self.alarms.move_to(next, now);
        }
    }

    fn tell(&self, cell: &Cell, told: Told) {
        let name = &cell.name;
        match told {
            Told::Granted { token, lease, by } => {
                self.observe(&LockEvent::Granted { name, token, lease, by })
            }
            Told::Ended { hold, how } => {
                let held = self.clock.now().since(hold.since);
                let (token, lease) = (hold.token, hold.lease);
                self.observe(&LockEvent::Ended { name, token, lease, how, held });
            }
            Told::Released { answer, by } => self.observe(&LockEvent::GuardReleased { name, answer, by }),
            Told::Wake(wake) => self.observe(&LockEvent::WakeUp { name, wake }),
            Told::Notice(Notice::Renewal { outcome, took, remaining }, _) => {
                self.observe(&LockEvent::Renewal { name, outcome, took, remaining });
            }
            Told::Notice(Notice::SelfDeadlock { token, waited }, _) => {
                self.observe(&LockEvent::SelfDeadlock { name, token, waited });
            }
            Told::Notice(Notice::RenewalFailed { token, remaining }, error) => {
                self.observe(&LockEvent::RenewalFailed { name, token, remaining, error: error.as_deref() });
            }
        }
    }
}
