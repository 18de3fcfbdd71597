//! Execution of requests by the store, observed by the oracle.

use crate::{
    message::{Answer, Request},
    state::State,
    trace::Who,
};
use lock_core::backend::{Acquired, Applied, ForceReleased, NotifyWaiters, Released};
use lock_testkit::planted::PlantedBug;

impl State {
    pub(crate) fn execute(&mut self, link: usize, request: &Request) -> Answer {
        let (now, node) = (self.now, self.links[link].node);
        match request {
            Request::Acquire(r) => {
                let before = self.stores[node].stored(now, &r.name);
                let reply = self.stores[node].acquire(now, r);
                let token = match reply.outcome {
                    Acquired::Granted { first, .. } => first.get(),
                    _ => 0,
                };
                self.note(Who::Store(node), "acquire", (r.lease.number().get(), token));
                self.oracle.acquire_executed(now, r, before, &reply);
                Answer::Acquired(reply)
            }
            Request::Renew(items) => {
                let replies: Vec<_> = items.iter().map(|item| self.stores[node].renew(now, item)).collect();
                for (item, reply) in items.iter().zip(&replies) {
                    self.note(Who::Store(node), "renew", (item.lease.number().get(), reply.outcome as u64));
                }
                Answer::Renewed(replies)
            }
            Request::Release(r) => {
                let mut reply = self.stores[node].release(now, r);
                reply.now = self.stores.time_of(node, now);
                let freed = matches!(reply.outcome, Released::Released { .. });
                self.note(Who::Store(node), "release", (r.lease.number().get(), freed.into()));
                if freed {
                    self.oracle.freed.insert(r.lease);
                    reply.outcome = self.notify_listeners(node, &r.name, r.notify);
                } else if r.notify == NotifyWaiters::EvenIfGone {
                    self.notify_listeners(node, &r.name, r.notify);
                }
                Answer::Released(reply)
            }
            Request::Propose(p) => Answer::Voted(self.propose(node, p)),
            Request::Extend(items) => {
                Answer::Extended(items.iter().map(|item| self.extend(node, item)).collect())
            }
            Request::Heal(h) => Answer::Healed(self.cure(node, h)),
            Request::Watch(name) => {
                self.stores[node].watch(link, name.clone());
                self.note(Who::Store(node), "watch", (link as u64, 0));
                Answer::Done
            }
            Request::Unwatch(name) => {
                self.stores[node].unwatch(link, name.clone());
                self.note(Who::Store(node), "unwatch", (link as u64, 0));
                Answer::Done
            }
            Request::Inspect(name) => Answer::Inspected(self.stores[node].inspect(now, name)),
            Request::Force(r) => {
                let before = self.stores[node].stored(now, &r.name);
                let reply = self.stores[node].force(now, r);
                self.note(Who::Store(node), "force", (reply.outcome as u64, 0));
                if reply.outcome == ForceReleased::Released {
                    self.count("forced release");
                    self.oracle.robbed(now, before);
                    self.notify_listeners(node, &r.name, NotifyWaiters::Yes);
                }
                Answer::ForceReleased(reply)
            }
            Request::Batch(requests) => Answer::Batch(self.execute_batch(link, requests)),
        }
    }

    /// Executes or refuses each request independently.
    fn execute_batch(&mut self, link: usize, requests: &[Request]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let refused = !self.calm && self.dice.chance(2.0 * self.plan.faults.refuse);
            answers.push(match refused {
                true => Answer::Failed(Applied::No),
                false => self.execute(link, request),
            });
        }
        let refused = answers.iter().filter(|answer| matches!(answer, Answer::Failed(_))).count();
        if refused > 0 && requests.len() > 1 {
            self.count("batch with a refused item");
            if self.bug == Some(PlantedBug::BatchErrorFailsNeighbours) {
                answers.fill(Answer::Failed(Applied::No));
            }
        }
        answers
    }
}
