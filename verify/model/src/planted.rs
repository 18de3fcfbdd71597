//! Planted bugs of a process, as wrappers of its machine's events and commands.

use crate::{
    config::{Config, TIMEOUT},
    message::{Ask, Body, Message},
    world::World,
};
use lock_core::{
    FencingToken,
    backend::{AcquireMode, Acquired, Operation, ReleaseRequest, Released, Reply},
    clock::Moment,
    model::{Command, Entry, Event, GrantSource, HandOffBudget, HoldEnd, TermValues, WatchAnswer},
};
use lock_testkit::planted::PlantedBug;
use std::{ops::ControlFlow, time::Duration};

impl World {
    /// Returns the event that the machine receives instead of this one.
    pub(crate) fn heard(&mut self, config: &Config, process: usize, event: Event) -> Option<Event> {
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
                Some(Event::Released { lease, depth_left: 0, outcome: Ok(Reply::new(now, outcome)) })
            }
            event => Some(event),
        }
    }

    /// Returns the command to execute instead of this one, or the event that follows if it is already done.
    pub(crate) fn commanded(
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
            (Some(PlantedBug::SubscribesLate), Command::Watch) => {
                self.send_unanswered(config, process, Ask::Watch);
                self.client(process).watching = true;
                ControlFlow::Break(Some(Event::Watched(WatchAnswer::Acknowledged)))
            }
            (Some(PlantedBug::DeadlineFromReply), Command::Grant { waiter, mut grant })
                if grant.by == GrantSource::Store =>
            {
                let terms = config.scripts[process][crate::driver::place_of(waiter.0)].terms;
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

    fn send_unanswered(&mut self, config: &Config, process: usize, ask: Ask) {
        let sent = self.local(config, process);
        self.send(Message { process, slow: false, body: Body::Request { ask, sent, mute: true } });
    }
}
