//! Grants, extensions and ends of holds, each of which must agree with what the application knows.

use crate::{
    belief::Belief,
    client::Chain,
    config::Config,
    laws::Law,
    store::id_of,
    world::{Kept, World},
};
use lock_core::{
    clock::Moment,
    model::{Event, Grant, GrantSource, HoldEnd, HoldId, LostReason},
};

impl World {
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
            self.broken.unless(id.token > self.fence || epoch != self.store.epoch, Law::Fence);
            self.fence = self.fence.max(id.token);
        }
        if grant.by == GrantSource::Store {
            self.begins_minimum(config, process, place, grant, epoch);
        }
        let by_hand = config.scripts[process][place].by_hand;
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
                client.beliefs.push(Belief { id, deadline, guards, by_hand, seen_over, ended, epoch });
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
}
