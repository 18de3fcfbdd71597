//! The effect of a step on the world.

use crate::{
    client::{Call, Client, Open},
    config::{Config, Wait},
    laws::Law,
    message::{Act, Answer, Ask, Body, Message},
    store::{Executed, draws_from, id_of},
    world::World,
};
use lock_core::{
    clock::Moment,
    model::{Entry, Event, OwnerId, TermValues, Ticket, WaitPolicy, WaiterId},
};
use lock_testkit::planted::PlantedBug;
use std::sync::Arc;

impl World {
    /// Takes the step and checks the resulting state.
    pub(crate) fn step(&mut self, config: &Config, act: Act) {
        match act {
            Act::Enter(process) => self.enter(config, process),
            Act::Leave(process, place) => {
                self.budget.cancel = self.budget.cancel.saturating_sub(1);
                let client = self.client(process);
                client.remove_waiter(place);
                client.left.push(place);
                client.left.sort_unstable();
                self.feed(config, process, Event::Leave { waiter: waiter_at(place) }, 0);
            }
            Act::Drop(process, at) => self.drop_guard(config, process, at),
            Act::Lower(process, at) => self.lower(config, process, at),
            Act::Execute(message) => self.execute(message),
            Act::Deliver(message) => self.deliver(config, message),
            Act::TimeOut(process) => self.time_out(config, process),
            Act::Tick(process) => self.feed(config, process, Event::Tick, 0),
            Act::Advance => self.advance(config),
            Act::Lose(message) => {
                self.take(&message);
                if message.body == Body::Wake {
                    self.budget.lose_wake -= 1;
                    self.store.announced = false;
                } else {
                    self.budget.lose -= 1;
                }
            }
            Act::Delay(message) => {
                self.budget.delay -= 1;
                self.take(&message);
                self.send(Message { slow: true, ..message });
            }
            Act::Duplicate(message) => self.duplicate(config, message),
            Act::Suspect(process) => {
                self.budget.suspect -= 1;
                self.client(process).doubt();
                self.feed(config, process, Event::Suspicion, 0);
            }
            Act::Close(process) => {
                self.budget.close -= 1;
                self.client(process).closed = true;
                self.feed(config, process, Event::Shutdown, 0);
            }
            Act::Die(process) => self.die(config, process),
            Act::Copy(process) => self.copy(config, process),
            Act::Pause(process) => {
                self.budget.pause -= 1;
                self.client(process).paused = true;
            }
            Act::Resume(process) => self.client(process).paused = false,
            Act::Save => self.store.save(),
            Act::Restart => {
                self.budget.restart -= 1;
                self.store.restart_empty();
            }
            Act::Restore => {
                self.budget.restore -= 1;
                self.store.restore();
            }
            Act::Evict => {
                self.budget.evict -= 1;
                self.store.evict(self.now);
            }
        }
        self.look(config);
        self.count(config);
    }

    /// Drops broken promises that are not checked.
    pub(crate) fn count(&mut self, config: &Config) {
        if let Some(law) = config.only {
            self.broken.keep_only(law);
        }
    }

    fn copy(&mut self, config: &Config, process: usize) {
        self.budget.copy -= 1;
        let (number, mut copy) = (self.clients.len(), Client::clone(&self.clients[process]));
        if !config.has(PlantedBug::DrawsIdsAhead) {
            copy.drawn += draws_from(number);
        }
        self.store.copies(process, number);
        self.clients.push(Arc::new(copy));
    }

    fn die(&mut self, config: &Config, process: usize) {
        self.budget.die -= 1;
        *self.client(process) = Client { closed: true, dead: true, ..Client::new(config, process) };
        self.store.forget(process);
        // Only operations on leases outlive their connection.
        self.net.retain(|message| {
            let is_operation = matches!(message.body, Body::Request { ask, .. } if ask.lease().is_some());
            message.process != process || is_operation
        });
    }

    fn lower(&mut self, config: &Config, process: usize, at: usize) {
        let Some(belief) = self.client(process).beliefs.get_mut(at) else { return };
        belief.weight = 1;
        let hold = belief.id;
        self.feed(config, process, Event::Downgrade { hold }, 0);
    }

    fn enter(&mut self, config: &Config, process: usize) {
        let now = self.local(config, process);
        let client = self.client(process);
        let place = client.entered;
        let want = config.scripts[process][place];
        let (wait_policy, until) = match want.wait {
            Wait::Forever => (WaitPolicy::Unbounded, Moment::NEVER),
            Wait::Once => (WaitPolicy::NoWait, Moment::NEVER),
            Wait::For(time) => (WaitPolicy::Deadline(now + time), now + time),
        };
        client.entered += 1;
        client.waiting.push((place, until));
        let entry = Entry {
            waiter: waiter_at(place),
            owner: OwnerId(want.owner),
            owned: want.share.is_none(),
            terms: TermValues { share: want.share, ..want.terms }.into(),
            wait_policy,
            join: None,
        };
        self.feed(config, process, Event::Enter(entry), 0);
    }

    fn drop_guard(&mut self, config: &Config, process: usize, at: usize) {
        let now = self.local(config, process);
        let holder = self.store.held(self.now).map(|(holder, ..)| holder);
        let client = self.client(process);
        let Some(belief) = client.beliefs.get_mut(at) else { return };
        let valid = belief.is_valid(now);
        let taken = holder.is_some_and(|holder| holder != id_of(belief.id.lease));
        belief.guards -= 1;
        let (hold, by_hand) = (belief.id, belief.by_hand);
        client.beliefs.retain(|belief| !belief.ended || belief.guards > 0);
        let event = if by_hand {
            let open = Open { ticket: client.tickets_drawn + 1, was_valid: valid, taken };
            client.tickets_drawn = open.ticket;
            client.tickets.push(open);
            Event::Release { hold, ticket: Ticket(client.tickets_drawn) }
        } else {
            Event::Drop { hold }
        };
        self.feed(config, process, event, 0);
    }

    fn execute(&mut self, message: Message) {
        self.take(&message);
        let Body::Request { ask, sent, mute } = message.body else { return };
        let process = message.process;
        let Executed { answer, wakes, broken } = self.store.execute(self.now, process, ask);
        self.broken.join(broken);
        if let Answer::Granted { first, .. } = answer {
            self.broken.unless(first > self.fence, Law::TokenOrder);
            let early = self.kept.filter(|kept| Some(kept.lease) != ask.lease().map(id_of));
            let early = early.filter(|kept| kept.epoch == self.store.epoch && self.now < kept.until);
            self.broken.unless(early.is_none(), Law::MinimumHold);
        }
        if wakes {
            for watcher in self.store.watchers() {
                let wake = Message { process: watcher, slow: false, body: Body::Wake };
                if !self.net.contains(&wake) {
                    self.send(wake);
                }
            }
        }
        let awaited = self.clients[process].is_calling(ask, sent);
        self.store.blurred |= answer == Answer::Kept && !awaited;
        if !mute && awaited {
            let (at, epoch) = (self.server(), self.store.epoch);
            self.send(Message { process, slow: false, body: Body::Reply { ask, sent, answer, at, epoch } });
        }
    }

    fn deliver(&mut self, config: &Config, message: Message) {
        self.take(&message);
        let process = message.process;
        match message.body {
            Body::Wake => self.feed(config, process, Event::Woken, 0),
            Body::Reply { ask, sent, answer, at, epoch } => {
                let script = config.scripts[process].len();
                let client = self.client(process);
                client.answered(ask, sent);
                client.wrong_by = 0;
                client.watching |= ask == Ask::Watch;
                if let (Answer::Granted { last, .. }, Some(lease)) = (answer, ask.lease()) {
                    client.range = Some((lease, last));
                }
                // An id that is certainly not in the store is drawn again, so that waiting adds no states.
                if let (Answer::Busy { .. }, Ask::Take { lease, .. }) = (answer, ask)
                    && !client.unanswered
                    && client.range.is_none_or(|(granted, _)| granted != lease)
                {
                    client.drawn = lease.get() - 1;
                }
                // The same for an id that is not that of the place either, if no other waiter can draw it.
                if let (Answer::Queued { .. }, Some(lease), place) = (answer, ask.lease(), ask.place())
                    && !client.unanswered
                    && place != Some(lease)
                    && client.waiting.len() == 1
                    && client.entered == script
                    && client.drawn == lease.get()
                {
                    client.drawn -= 1;
                }
                if let (Answer::Gone { .. }, Some(lease)) = (answer, ask.lease()) {
                    client.gone.add(lease);
                }
                self.feed(config, process, ask.answered(sent, at, answer), epoch);
            }
            Body::Request { .. } => {}
        }
    }

    fn time_out(&mut self, config: &Config, process: usize) {
        let Some(Call { ask, sent, .. }) = self.overdue(config, process) else { return };
        let client = self.client(process);
        client.calls.remove(0);
        client.unanswered |= ask.is_new();
        let dies = matches!(ask, Ask::Watch | Ask::Unwatch);
        let twin = self.clients[process].is_calling(ask, sent);
        self.net.retain(|message| match message.body {
            // The caller of this reply is no longer waiting.
            Body::Reply { ask: to, sent: at, .. } => {
                twin || message.process != process || to != ask || at != sent
            }
            Body::Request { ask: to, sent: at, .. } => {
                !dies || message.process != process || to != ask || at != sent
            }
            Body::Wake => true,
        });
        self.feed(config, process, ask.unknown(sent), 0);
    }

    fn advance(&mut self, config: &Config) {
        let Some(next) = self.next_moment(config) else { return };
        if self.store.permits(next) != self.store.permits(self.now) {
            // Nobody tells that a lease or a place has ended.
            self.store.announced = false;
        }
        self.now = next;
        self.kept = self.kept.filter(|kept| next < kept.until);
        for process in 0..self.clients.len() {
            let now = self.local(config, process);
            let sees = |client: &Client| {
                !client.paused
                    && client
                        .beliefs
                        .iter()
                        .any(|belief| !belief.ended && !belief.seen_over && belief.deadline <= now)
            };
            if sees(&self.clients[process]) {
                let beliefs = &mut self.client(process).beliefs;
                beliefs.iter_mut().for_each(|belief| belief.seen_over |= belief.deadline <= now);
            }
        }
    }

    fn duplicate(&mut self, config: &Config, message: Message) {
        let Body::Request { ask, sent, .. } = message.body else { return };
        self.budget.duplicate -= 1;
        let answered = match ask {
            Ask::Take { .. } | Ask::Keep { .. } | Ask::Permit { .. } => false,
            Ask::Release { depth_left, .. } => depth_left == 0,
            Ask::Renew { .. } | Ask::Watch | Ask::Unwatch => true,
        };
        let copy = Body::Request { ask, sent, mute: true };
        self.send(Message { slow: true, body: copy, ..message });
        if !answered && !config.resends_answered {
            self.take(&message);
            self.send(Message { slow: true, body: copy, ..message });
        }
    }
}

fn waiter_at(place: usize) -> WaiterId {
    WaiterId(place as u64 + 1)
}
