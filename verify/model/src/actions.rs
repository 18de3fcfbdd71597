//! The steps that are possible in a state.

use crate::{
    act::Act,
    config::Config,
    message::{Ask, Body, Message},
    world::World,
};
use std::time::Duration;

impl World {
    pub(crate) fn acts(&self, config: &Config, acts: &mut Vec<Act>) {
        if !self.broken.is_none() {
            return;
        }
        self.acts_of_messages(config, acts);
        for process in 0..self.clients.len() {
            self.acts_of_process(config, process, acts);
        }
        self.acts_of_server(acts);
        let in_time = |at: u64| Duration::from_micros(at) <= config.horizon;
        if self.is_settled(config) && self.next_moment(config).is_some_and(in_time) {
            acts.push(Act::Advance);
        }
    }

    fn acts_of_messages(&self, config: &Config, acts: &mut Vec<Act>) {
        let budget = &self.budget;
        for (at, message) in self.net.iter().enumerate() {
            if at > 0 && self.net[at - 1] == *message {
                continue;
            }
            if self.can_arrive(message) {
                acts.push(match message.body {
                    Body::Request { .. } => Act::Execute(*message),
                    Body::Reply { .. } | Body::Wake => Act::Deliver(*message),
                });
            }
            if message.slow {
                continue;
            }
            let lose = if message.body == Body::Wake { budget.lose_wake } else { budget.lose };
            if lose > 0 {
                acts.push(Act::Lose(*message));
            }
            if budget.delay > 0 {
                acts.push(Act::Delay(*message));
            }
            if budget.duplicate > 0 && can_be_sent_twice(config, message) {
                acts.push(Act::Duplicate(*message));
            }
        }
    }

    fn acts_of_process(&self, config: &Config, process: usize, acts: &mut Vec<Act>) {
        let client = &self.clients[process];
        if client.paused {
            return acts.push(Act::Resume(process));
        }
        if self.overdue(config, process).is_some() {
            acts.push(Act::TimeOut(process));
        }
        if self.is_due(config, process) {
            acts.push(Act::Tick(process));
        }
        if client.entered < config.scripts[process].len() && !client.closed {
            acts.push(Act::Enter(process));
        }
        let held = client.beliefs.iter().enumerate().filter(|(_, belief)| belief.guards > 0);
        acts.extend(held.map(|(at, _)| Act::Drop(process, at)));
        if self.budget.cancel > 0 {
            acts.extend(client.waiting.iter().map(|(place, _)| Act::Leave(process, *place)));
        }
        if self.budget.pause > 0 {
            acts.push(Act::Pause(process));
        }
        if self.budget.suspect > 0 && client.machine.holder().is_some() {
            acts.push(Act::Suspect(process));
        }
        if self.budget.close > 0 && !client.closed {
            acts.push(Act::Close(process));
        }
        if self.budget.copy > 0 && process == 0 && client.can_be_copied() {
            acts.push(Act::Copy(process));
        }
    }

    fn acts_of_server(&self, acts: &mut Vec<Act>) {
        let budget = &self.budget;
        let may_lose = self.store.drawn_at != self.now;
        if budget.restart > 0 && may_lose {
            acts.push(Act::Restart);
        }
        if budget.restore > 0 {
            if self.store.can_save() {
                acts.push(Act::Save);
            }
            if self.store.can_restore() && may_lose {
                acts.push(Act::Restore);
            }
        }
        if budget.evict > 0 && self.store.held(self.now).is_some() {
            acts.push(Act::Evict);
        }
    }
}

fn can_be_sent_twice(config: &Config, message: &Message) -> bool {
    match message.body {
        Body::Request { ask: Ask::Watch | Ask::Unwatch, .. } => false,
        Body::Request { mute, .. } => !mute || config.resends_answered,
        Body::Reply { .. } | Body::Wake => false,
    }
}
