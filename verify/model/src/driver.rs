//! The driver of a process: passes events to the machine and executes its commands, like `lock-core`'s driver.
//!
//! Grants, extensions and ends of holds must agree with what the application knows. Bugs of a process are planted in
//! its events and commands.

use crate::{
    client::{Belief, Call, Chain, Open},
    config::{Config, TIMEOUT, Wait, Want},
    laws::Law,
    message::{Ask, Body, Message},
    store::{drawn_by, id_of, server_time},
    world::{Kept, World},
};
use lock_core::{
    FencingToken, LockName, ReleaseOutcome,
    backend::{
        AcquireMode, AcquireRequest, Acquired, LeaseNumber, Operation, PermitRequest, ProcessId,
        ReleaseRequest, Released, RenewRequest, Reply,
    },
    clock::{Moment, UtcTime},
    model::{
        Command, Entry, Env, Event, Grant, GrantSource, HandOffBudget, HoldEnd, HoldId, LostReason, Refusal,
        TermValues, WatchAnswer,
    },
};
use lock_testkit::planted::PlantedBug;
use std::{
    collections::VecDeque,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};
use uuid::Uuid;

/// Lease ids are counted, and jitter is a few microseconds, so that each path is deterministic.
struct Draws {
    next: u64,
    /// The number of ids that were drawn.
    drawn: u64,
    server: UtcTime,
}

impl Env for Draws {
    fn address(&self) -> (LockName, ProcessId) {
        (LockName::new("x").expect("a valid name"), ProcessId::from_uuid(Uuid::nil()))
    }

    /// In this model, futures are polled as soon as they are granted.
    fn unclaimed(&mut self, _: HoldId, _: Moment) -> u32 {
        0
    }

    fn unique(&mut self) -> Option<u64> {
        // A pool draws one for each of its waiters.
        self.drawn += 1;
        Some(self.next + self.drawn - 1)
    }

    fn jitter(&mut self) -> u64 {
        self.next
    }

    fn server_now(&mut self) -> UtcTime {
        self.server
    }
}

impl World {
    /// Passes an event to the machine. `epoch` is that of the reply that caused the event.
    pub(crate) fn feed(&mut self, config: &Config, process: usize, event: Event, epoch: u8) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(event) = self.heard(config, process, event) else { continue };
            let now = self.local(config, process);
            let server = self.now.saturating_add_signed(self.clients[process].wrong_by);
            let next = self.unasked(config, process, &event);
            let client = self.client(process);
            let next = next.map_or(client.drawn + 1, LeaseNumber::get);
            let mut draws = Draws { next, drawn: 0, server: server_time(server) };
            let mut commands = Vec::new();
            let handled = catch_unwind(AssertUnwindSafe(|| {
                client.machine.handle(now, event, &mut draws, &mut commands);
            }));
            self.broken.unless(handled.is_ok(), Law::NoPanic);
            for command in commands {
                events.extend(self.obey(config, process, now, command, epoch));
            }
        }
    }

    fn obey(
        &mut self,
        config: &Config,
        process: usize,
        now: Moment,
        command: Command,
        epoch: u8,
    ) -> Option<Event> {
        let command = match self.commanded(config, process, now, command) {
            ControlFlow::Continue(command) => command,
            ControlFlow::Break(event) => return event,
        };
        match command {
            Command::Io { operation: Operation::Acquire(request), timeout } => {
                let AcquireRequest { lease, duration, not_after, mode, .. } = request;
                let lease = lease.number();
                let ask = match mode {
                    AcquireMode::Reenter { depth } => Ask::Keep { lease, duration, not_after, depth },
                    AcquireMode::New { reserve, .. } => Ask::Take { lease, duration, not_after, reserve },
                    AcquireMode::Permit(request) => {
                        let PermitRequest { share, place, .. } = *request;
                        let (weight, limit) = (share.weight, share.limit);
                        let place = place.map(|place| (place.id.number(), place.patience));
                        Ask::Permit { lease, duration, not_after, weight, limit, place }
                    }
                };
                let client = self.client(process);
                client.drawn = client.drawn.max(lease.get());
                let again = client.retired.has(lease);
                self.broken.unless(!again, Law::NoResurrection);
                self.call(process, now, ask, timeout);
                None
            }
            Command::Io { operation: Operation::Renew(request), timeout } => {
                let RenewRequest { lease, duration, not_after, .. } = request;
                self.call(process, now, Ask::Renew { lease: lease.number(), duration, not_after }, timeout);
                None
            }
            Command::Io { operation: Operation::Release(request), timeout } => {
                let (lease, depth_left) = (request.lease.number(), request.depth_left);
                let client = self.client(process);
                if depth_left == 0 {
                    client.retired.add(lease);
                }
                self.call(process, now, Ask::Release { lease, depth_left }, timeout);
                None
            }
            Command::Watch => {
                self.call(process, now, Ask::Watch, TIMEOUT);
                None
            }
            Command::Unwatch => {
                self.client(process).watching = false;
                self.call(process, now, Ask::Unwatch, TIMEOUT);
                None
            }
            Command::Grant { waiter, grant } => {
                self.granted(config, process, place_of(waiter.0), grant, epoch);
                None
            }
            Command::Refuse { waiter, refusal } => {
                let place = place_of(waiter.0);
                let client = self.client(process);
                let waited = client.remove_waiter(place) || client.left.contains(&place);
                let right = match refusal {
                    Refusal::Lost => true,
                    Refusal::ShutDown => client.closed,
                    Refusal::Timeout(_) | Refusal::Outage | Refusal::Unanswered => {
                        matches!(config.scripts[process][place].wait, Wait::For(_))
                    }
                    _ => config.scripts[process][place].wait == Wait::Once,
                };
                self.broken.unless(waited && right, Law::BoundedWait);
                None
            }
            Command::Extended { hold, deadline } => self.extended(process, hold, deadline),
            Command::Ended { hold, how } => {
                self.ended(process, now, hold, how);
                None
            }
            Command::ReleaseAnswered { ticket: None, .. } => None,
            Command::ReleaseAnswered { ticket: Some(ticket), answer } => {
                let client = self.client(process);
                let at = client.tickets.iter().position(|open| open.ticket == ticket.0);
                let open = at.map(|at| client.tickets.remove(at));
                self.broken.unless(open.is_some(), Law::NoPanic);
                // A release of a lost hold must not report that it was protected. (A restored state of the store may
                // bring a lease back in time for its release.)
                let claims = answer.is_ok_and(|outcome| outcome.was_held());
                let freed = matches!(answer, Ok(ReleaseOutcome::Released));
                let haunted = self.store.haunted;
                let right = |open: Open| (open.was_valid || !claims) && (!open.taken || !freed || haunted);
                self.broken.unless(open.is_none_or(right), Law::LossReportedOnce);
                None
            }
            Command::Notice(_) => None,
        }
    }

    fn call(&mut self, process: usize, sent: Moment, ask: Ask, timeout: Duration) {
        self.client(process).call(Call { due: sent + timeout, sent, ask });
        self.send(Message { process, slow: false, body: Body::Request { ask, sent, mute: false } });
    }

    pub(crate) fn granted(&mut self, config: &Config, process: usize, place: usize, grant: Grant, epoch: u8) {
        let id = grant.hold;
        let epoch = self.chained(config, process, place, grant, epoch);
        let fresh = grant.by != GrantSource::Reentry;
        if fresh {
            self.broken.unless(!self.tokens.contains(&id.token), Law::OneHold);
            if let Err(at) = self.tokens.binary_search(&id.token) {
                self.tokens.insert(at, id.token);
            }
            // The application presents the token to the resource. It may only be refused if the store has lost the
            // token in the meantime.
            let is_fenced = id.token > self.fence || epoch != self.store.epoch;
            // Permits are held side by side, so a reply may overtake that of an earlier grant.
            self.broken.unless(is_fenced || config.is_pool(), Law::Fence);
            self.fence = self.fence.max(id.token);
        }
        if grant.by == GrantSource::Store {
            self.begins_minimum(config, process, place, grant, epoch);
        }
        let Want { by_hand, share, lowers, .. } = config.scripts[process][place];
        let weight = share.map_or(1, |share| share.weight);
        let client = self.client(process);
        let waited = client.remove_waiter(place);
        client.granted.add(id.lease);
        let known = client.beliefs.iter_mut().find(|belief| belief.id == id && !belief.ended);
        let kept = known.is_some() != fresh;
        match known {
            Some(belief) => {
                belief.guards += 1;
                belief.by_hand |= by_hand;
            }
            None => {
                let (guards, seen_over, ended) = (1, false, false);
                let deadline = grant.deadline;
                client.beliefs.push(Belief {
                    id,
                    deadline,
                    guards,
                    weight,
                    lowers,
                    by_hand,
                    seen_over,
                    ended,
                    epoch,
                });
                client.beliefs.sort_unstable();
            }
        }
        self.broken.unless(waited && kept, Law::OneHold);
    }

    /// Records how long nobody else may be granted the lock. A slow clock only makes it longer.
    fn begins_minimum(&mut self, config: &Config, process: usize, place: usize, grant: Grant, epoch: u8) {
        let min_hold = config.scripts[process][place].terms.min_hold;
        if !min_hold.is_zero() {
            let until = self.now + u64::try_from(min_hold.as_micros()).unwrap_or(u64::MAX);
            self.kept = Some(Kept { lease: id_of(grant.hold.lease), epoch, until });
        }
    }

    /// Follows the lease from holder to holder. Returns the number of the store's data losses when it granted the
    /// lease.
    fn chained(&mut self, config: &Config, process: usize, place: usize, grant: Grant, epoch: u8) -> u8 {
        let now = self.local(config, process);
        let terms = config.scripts[process][place].terms;
        let lease = grant.hold.lease;
        let stored = self.store.held(self.now).filter(|(holder, ..)| *holder == id_of(lease));
        let is_inherited = stored.is_some_and(|(.., left)| left > terms.lease);
        let client = self.client(process);
        match grant.by {
            GrantSource::Store => {
                let last = client.range.take().filter(|(of, _)| *of == lease).map(|(_, last)| last);
                client.chain = last.filter(|_| terms.hand_off.passes > 0).map(|last| Chain {
                    lease,
                    epoch,
                    last,
                    granted_at: now,
                    passes: 0,
                    terms,
                    doubted: false,
                });
                epoch
            }
            GrantSource::HandOff => {
                let Some(chain) = client.chain.as_mut().filter(|chain| chain.lease == lease) else {
                    self.broken.add(Law::HandOff);
                    return epoch;
                };
                chain.passes += 1;
                let budget = chain.terms.hand_off;
                let kept = grant.hold.token <= chain.last
                    && chain.passes <= budget.passes
                    && now.since(chain.granted_at) < budget.within
                    && chain.terms == terms
                    && !is_inherited
                    && !chain.doubted;
                let epoch = chain.epoch;
                self.broken.unless(kept, Law::HandOff);
                epoch
            }
            _ => epoch,
        }
    }

    /// Records an extension. If the application has already seen the deadline pass, the machine is informed instead.
    pub(crate) fn extended(&mut self, process: usize, hold: HoldId, deadline: Moment) -> Option<Event> {
        let belief = self.client(process).beliefs.iter_mut().find(|belief| belief.id == hold);
        let told = match belief {
            Some(belief) if belief.ended => false,
            Some(belief) if belief.seen_over => return Some(Event::Expired { hold }),
            Some(belief) => {
                let falls = deadline < belief.deadline;
                belief.deadline = belief.deadline.max(deadline);
                !falls
            }
            // Nothing is reported about an ended hold.
            None => false,
        };
        self.broken.unless(told, Law::NoResurrection);
        None
    }

    pub(crate) fn ended(&mut self, process: usize, now: Moment, hold: HoldId, how: HoldEnd) {
        let client = self.client(process);
        let (gone, closed) = (client.gone.has(hold.lease), client.closed);
        let belief = client.beliefs.iter_mut().find(|belief| belief.id == hold && !belief.ended);
        let right = match belief {
            Some(belief) => {
                belief.ended = true;
                match how {
                    HoldEnd::Released => belief.guards == 0,
                    HoldEnd::Lost(LostReason::Gone) => gone,
                    HoldEnd::Lost(LostReason::ShutDown) => closed,
                    HoldEnd::Lost(_) => belief.seen_over || belief.deadline <= now,
                    _ => false,
                }
            }
            None => false,
        };
        client.beliefs.retain(|belief| !belief.ended || belief.guards > 0);
        self.broken.unless(right, Law::LossReportedOnce);
    }

    /// Returns the event that the machine receives instead of this one.
    fn heard(&mut self, config: &Config, process: usize, event: Event) -> Option<Event> {
        let (bug, now) = (config.bug, self.server());
        match event {
            // The machine never learns that its clock has jumped.
            Event::Suspicion if config.has(PlantedBug::HandsOffSuspect) => None,
            Event::Enter(entry) if config.has(PlantedBug::HandsOffForEver) => {
                let hand_off = HandOffBudget { passes: u32::MAX, ..entry.terms.hand_off };
                let terms = TermValues { hand_off, ..*entry.terms }.into();
                Some(Event::Enter(Entry { terms, ..entry }))
            }
            Event::Enter(entry) if config.has(PlantedBug::IgnoresMinHold) => {
                let terms = TermValues { min_hold: Duration::ZERO, ..*entry.terms }.into();
                Some(Event::Enter(Entry { terms, ..entry }))
            }
            // All options of a process look like those of its first waiter.
            Event::Enter(entry) if config.has(PlantedBug::HandsOffUnderOtherTerms) => {
                Some(Event::Enter(Entry { terms: config.scripts[process][0].terms.into(), ..entry }))
            }
            Event::Acquired {
                lease,
                outcome: Ok(Reply { now, outcome: Acquired::Granted { first, .. }, .. }),
            } if config.has(PlantedBug::HandsOffBeyondRange) => {
                let last = FencingToken::new(first.get() + 100);
                Some(Event::Acquired {
                    lease,
                    outcome: Ok(Reply::new(now, Acquired::Granted { first, last })),
                })
            }
            Event::Woken if config.has(PlantedBug::WakeIgnoredDuringAttempt) => {
                (!self.clients[process].tries()).then_some(event)
            }
            Event::Release { hold, .. } | Event::Drop { hold } if config.has(PlantedBug::DepthOverlap) => {
                let client = &self.clients[process];
                if client.calls.iter().any(|call| matches!(call.ask, Ask::Keep { .. })) {
                    let belief = client.beliefs.iter().find(|belief| belief.id == hold);
                    let depth_left = belief.map_or(0, |belief| belief.guards);
                    self.send_unanswered(config, process, Ask::Release { lease: hold.lease, depth_left });
                }
                Some(event)
            }
            Event::Renewed { lease, sent, outcome } => {
                Some(Event::Renewed { lease, sent, outcome: PlantedBug::renewed(bug, now, outcome) })
            }
            Event::Released { lease, depth_left: 0, outcome: Ok(Reply { now, outcome, .. }) } => {
                let outcome = PlantedBug::released(bug, outcome);
                // A reply from after every `not_after` is conclusive.
                let ahead = if config.has(PlantedBug::EndsUndoEarly) { TIMEOUT * 10 } else { Duration::ZERO };
                let now = now + ahead;
                Some(Event::Released { lease, depth_left: 0, outcome: Ok(Reply::new(now, outcome)) })
            }
            event => Some(event),
        }
    }

    /// Returns the command to execute instead of this one, or the event that follows if it is already done.
    fn commanded(
        &mut self,
        config: &Config,
        process: usize,
        now: Moment,
        command: Command,
    ) -> ControlFlow<Option<Event>, Command> {
        match (config.bug, command) {
            (
                Some(PlantedBug::NoUndo),
                Command::Io {
                    operation: Operation::Release(ReleaseRequest { lease, depth_left: 0, .. }),
                    ..
                },
            ) if !self.clients[process].granted.has(lease.number()) => {
                let lease = lease.number();
                let answer = Released::Gone { held_by_other: false };
                let outcome = Ok(Reply::new(self.server() + TIMEOUT * 10, answer));
                ControlFlow::Break(Some(Event::Released { lease, depth_left: 0, outcome }))
            }
            // The wake-up says that the permit was granted.
            (
                Some(PlantedBug::GrantsUnasked),
                Command::Io { operation: Operation::Acquire(request), timeout },
            ) => match self.store.unasked(request.lease.number()) {
                Some(token) => {
                    let granted = Acquired::Granted { first: token, last: token };
                    let (lease, outcome) = (request.lease.number(), Ok(Reply::new(self.server(), granted)));
                    ControlFlow::Break(Some(Event::Acquired { lease, outcome }))
                }
                None => {
                    ControlFlow::Continue(Command::Io { operation: Operation::Acquire(request), timeout })
                }
            },
            (Some(PlantedBug::SubscribesLate), Command::Watch) => {
                self.send_unanswered(config, process, Ask::Watch);
                self.client(process).watching = true;
                ControlFlow::Break(Some(Event::Watched(WatchAnswer::Acknowledged)))
            }
            (Some(PlantedBug::DeadlineFromReply), Command::Grant { waiter, mut grant })
                if grant.by == GrantSource::Store =>
            {
                let terms = config.scripts[process][place_of(waiter.0)].terms;
                grant.deadline = now + terms.lease - terms.margin;
                ControlFlow::Continue(Command::Grant { waiter, grant })
            }
            // The machine does not learn that the re-entry is longer.
            (
                Some(PlantedBug::HandsOffExtended),
                Command::Io { operation: Operation::Acquire(mut request), timeout },
            ) if matches!(request.mode, AcquireMode::Reenter { .. }) => {
                request.duration *= 2;
                ControlFlow::Continue(Command::Io { operation: Operation::Acquire(request), timeout })
            }
            (Some(PlantedBug::LossNotReported), Command::Ended { how: HoldEnd::Lost(_), .. }) => {
                ControlFlow::Break(None)
            }
            (_, command) => ControlFlow::Continue(command),
        }
    }

    /// Returns the place of this process to which a release granted a permit, if this wake-up says so.
    fn unasked(&self, config: &Config, process: usize, event: &Event) -> Option<LeaseNumber> {
        if !config.has(PlantedBug::GrantsUnasked) || *event != Event::Woken {
            return None;
        }
        let mut places = self.store.all_unasked().iter().map(|(place, _)| place.number());
        let own =
            |place: &LeaseNumber| drawn_by(*place) == process && !self.clients[process].granted.has(*place);
        places.find(own)
    }

    fn send_unanswered(&mut self, config: &Config, process: usize, ask: Ask) {
        let sent = self.local(config, process);
        self.send(Message { process, slow: false, body: Body::Request { ask, sent, mute: true } });
    }
}

/// Returns the position of a waiter in the script. Waiters are numbered by position, starting at 1.
fn place_of(waiter: u64) -> usize {
    usize::try_from(waiter).unwrap_or(usize::MAX).saturating_sub(1)
}
