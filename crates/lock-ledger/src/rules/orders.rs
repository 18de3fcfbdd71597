//! The orders of a group: pauses, schedules and triggers.

use super::{GroupLedger, Job};
use crate::{MOST_OF_A_JOB, MOST_TRIGGERS, Order, Ordered, Orders, RunId, Trigger};
use lock_core::{__private::expiry, LockName, ServerTime};

impl GroupLedger {
    /// Gives an order. Instants that were missed under the orders before it stay missed: a job that was paused for a week does
    /// not begin with the runs of that week.
    pub fn order(&mut self, now: ServerTime, name: &LockName, order: &Order) -> Ordered {
        let Some(job) = self.jobs.get_mut(name) else { return Ordered::Unregistered };
        let mut next = job.orders.clone();
        match order {
            Order::Pause => next.paused = true,
            Order::Resume => next.paused = false,
            Order::Replace(schedule) => next.schedule = Some(schedule.clone()),
            Order::Restore => next.schedule = None,
            Order::Reset => job.reset(now),
            Order::Trigger { id, life } => {
                let until = ServerTime::from_micros(expiry(now, *life).saturating_mul(1000));
                return self.trigger(now, Trigger { given: now, until, id: *id, job: name.clone() });
            }
            Order::CancelTrigger(id) => {
                return self.cancel(|trigger| trigger.id == *id && trigger.job == *name);
            }
        }
        if next != job.orders || *order == Order::Reset {
            self.revision += 1;
            next.revision = self.revision;
            job.orders = next;
            if !matches!(order, Order::Pause | Order::Reset) {
                job.raise_watermark(now.as_millis());
            }
        }
        Ordered::Accepted { revision: self.revision }
    }

    fn trigger(&mut self, now: ServerTime, new: Trigger) -> Ordered {
        let waits = self.triggers.iter().any(|trigger| trigger.id == new.id);
        // An order that is delivered twice, far apart, was carried out in between.
        let run = RunId::Triggered(new.id);
        let known = |job: &Job| job.open.contains_key(&run) || job.remembers(run, None);
        if waits || self.jobs.get(&new.job).is_some_and(known) {
            return Ordered::Accepted { revision: self.revision };
        }
        self.triggers.retain(|trigger| trigger.job != new.job || now <= trigger.until);
        let alive = self.triggers.iter().filter(|trigger| now <= trigger.until);
        let of_job = self.triggers.iter().filter(|trigger| trigger.job == new.job);
        if alive.count() >= MOST_TRIGGERS || of_job.count() >= MOST_OF_A_JOB {
            return Ordered::Full;
        }
        self.triggers.push(new);
        self.triggers.sort_by_key(|trigger| (trigger.given, trigger.id));
        self.revision += 1;
        Ordered::Accepted { revision: self.revision }
    }

    fn cancel(&mut self, which: impl Fn(&Trigger) -> bool) -> Ordered {
        let before = self.triggers.len();
        self.triggers.retain(|trigger| !which(trigger));
        if self.triggers.len() == before {
            return Ordered::Gone;
        }
        self.revision += 1;
        Ordered::Accepted { revision: self.revision }
    }

    /// Reads the orders, if they are not those of revision `known`.
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

impl Job {
    /// Brings back what a clock that was ahead has put into the future.
    fn reset(&mut self, now: ServerTime) {
        let now_ms = now.as_millis();
        self.watermark_ms = now_ms;
        for since in self.since.values_mut() {
            since.from_ms = since.from_ms.min(now_ms);
        }
        for open in self.open.values_mut() {
            open.expires_ms = open.expires_ms.min(expiry(now, open.lease));
        }
    }
}
