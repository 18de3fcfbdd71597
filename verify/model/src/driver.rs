//! The driver of a process: passes events to the machine and executes its commands, like `lock-core`'s driver.

use crate::{
    client::{Call, Open},
    config::{Config, TIMEOUT, Wait},
    laws::Law,
    message::{Ask, Body, Message},
    store::server_time,
    world::World,
};
use lock_core::{
    LockName, ReleaseOutcome,
    backend::{AcquireMode, AcquireRequest, Operation, ProcessId, RenewRequest},
    clock::{Moment, UtcTime},
    model::{Command, Env, Event, HoldId, Refusal},
};
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
        Some(self.next)
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
            let client = self.client(process);
            let mut draws = Draws { next: client.drawn + 1, server: server_time(server) };
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
}

/// Returns the position of a waiter in the script. Waiters are numbered by position, starting at 1.
pub(crate) fn place_of(waiter: u64) -> usize {
    usize::try_from(waiter).unwrap_or(usize::MAX).saturating_sub(1)
}
