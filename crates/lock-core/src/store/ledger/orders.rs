//! What the fleet was told about its jobs.

use super::GroupLedger;
use crate::{
    backend::ledger::{MOST_TRIGGERS, Order, Ordered, Orders, RunId, Trigger},
    name::LockName,
    time::ServerTime,
};

impl GroupLedger {
    /// Gives an order. What was missed under the orders before it stays missed: a job that was paused for a week does not
    /// begin with the runs of that week.
    pub fn order(&mut self, now: ServerTime, name: &LockName, order: &Order) -> Ordered {
        let Some(job) = self.jobs.get_mut(name) else { return Ordered::Unregistered };
        let mut next = job.orders.clone();
        match order {
            Order::Pause => next.paused = true,
            Order::Resume => next.paused = false,
            Order::Replace(schedule) => next.schedule = Some(schedule.clone()),
            Order::Restore => next.schedule = None,
            Order::Trigger(id) => {
                let waits = self.triggers.iter().any(|trigger| trigger.id == *id);
                // An order that is delivered twice, far apart, was carried out in between.
                if !waits && !job.knows(RunId::Triggered(*id)) {
                    if self.triggers.len() >= MOST_TRIGGERS {
                        return Ordered::Full;
                    }
                    self.triggers.push(Trigger { given: now, id: *id, job: name.clone() });
                    self.triggers.sort_by_key(|trigger| (trigger.given, trigger.id));
                    self.revision += 1;
                }
                return Ordered::Accepted { revision: self.revision };
            }
        }
        if next != job.orders {
            self.revision += 1;
            next.revision = self.revision;
            job.orders = next;
            if !matches!(order, Order::Pause) {
                job.raise_watermark(now.as_millis());
            }
        }
        Ordered::Accepted { revision: self.revision }
    }

    /// The orders, if they are not those of revision `known`.
    #[must_use]
    pub fn orders(&self, known: u64) -> Orders {
        if known == self.revision {
            return Orders::Unchanged;
        }
        let given = self.jobs.iter().filter(|(_, job)| job.orders.revision > 0);
        Orders::Changed {
            revision: self.revision,
            jobs: given.map(|(name, job)| (name.clone(), job.orders.clone())).collect(),
            triggers: self.triggers.clone(),
        }
    }
}
