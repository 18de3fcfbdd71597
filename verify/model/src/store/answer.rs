//! What the store answers: as the real rules say, or as a planted bug has it.

use super::{Store, id_of, server_time};
use crate::{
    config::{Config, SHORT},
    message::{Answer, Ask},
    mutant::Mutant,
};
use lock_core::{
    FencingToken, LeaseId, ServerTime,
    backend::{Acquired, Released, Renewed, Wish},
};
use std::time::Duration;

impl Store {
    pub(super) fn answer(&mut self, config: &Config, now: u64, process: usize, ask: Ask) -> Answer {
        let at = server_time(now);
        match ask {
            Ask::Take { lease, duration, not_after } => {
                let not_after = if config.has(Mutant::NoNotAfter) { at } else { not_after };
                let before = self.held(now);
                let id = id_of(process, lease);
                let answer =
                    self.acquire(at, id, duration, not_after, Wish::Next { reserve: 0, floor: None });
                if let (true, Some((holder, depth, _))) = (config.has(Mutant::CountingDepth), before)
                    && holder == id
                {
                    self.acquire(at, id, duration, not_after, Wish::Keep { depth: depth + 1 });
                }
                match answer {
                    Answer::Granted { .. } if config.has(Mutant::StaleCounter) => {
                        self.plain += 1;
                        let token = FencingToken::new(self.plain);
                        Answer::Granted { first: token, last: token }
                    }
                    as_it_is => as_it_is,
                }
            }
            Ask::Keep { lease, duration, not_after, depth } => {
                let id = id_of(process, lease);
                let held = self.held(now).filter(|held| held.0 == id);
                let (duration, depth) = match held {
                    Some((_, stored, _)) if config.has(Mutant::CountingDepth) => (duration, stored + 1),
                    _ => (duration, depth),
                };
                let creates =
                    config.has(Mutant::ReentryCreates) && at <= not_after && self.held(now).is_none();
                let shortens = config.has(Mutant::InnerShortens) && held.is_some();
                let duration = if shortens { SHORT.lease } else { duration };
                if shortens {
                    self.slot.release(at, id, 0);
                }
                if creates || shortens {
                    self.acquire(at, id, duration, at, Wish::Next { reserve: 0, floor: None });
                }
                self.acquire(at, id, duration, not_after, Wish::Keep { depth })
            }
            Ask::Renew { lease, duration, not_after } => {
                let id = id_of(process, lease);
                let whose = match self.held(now) {
                    Some((holder, ..)) if config.has(Mutant::RenewWithoutCompare) => holder,
                    None if config.has(Mutant::RenewalCreates) && at <= not_after => {
                        self.acquire(at, id, duration, at, Wish::Next { reserve: 0, floor: None });
                        id
                    }
                    _ => id,
                };
                match self.slot.renew(at, whose, duration, not_after) {
                    Renewed::Renewed => Answer::Renewed,
                    Renewed::Late => Answer::Late,
                    _ => Answer::Gone { held_by_other: false },
                }
            }
            Ask::Release { lease, depth_left } => {
                let id = id_of(process, lease);
                let (whose, left) = match self.held(now) {
                    Some((holder, ..)) if config.has(Mutant::DeleteWithoutCompare) => (holder, depth_left),
                    Some((holder, depth, _)) if config.has(Mutant::CountingDepth) && holder == id => {
                        (id, depth - 1)
                    }
                    _ => (id, depth_left),
                };
                match self.slot.release(at, whose, left) {
                    Released::Released { .. } => Answer::Released { listeners: self.watchers.count_ones() },
                    Released::Gone { held_by_other } => Answer::Gone { held_by_other },
                    _ => Answer::Kept,
                }
            }
            Ask::Watch => {
                self.watchers |= 1 << process;
                Answer::Done
            }
            Ask::Unwatch => {
                self.watchers &= !(1 << process);
                Answer::Done
            }
        }
    }

    fn acquire(
        &mut self,
        now: ServerTime,
        lease: LeaseId,
        duration: Duration,
        not_after: ServerTime,
        wish: Wish,
    ) -> Answer {
        match self.slot.acquire(now, lease, duration, not_after, wish, None) {
            Ok(Acquired::Granted { first, last }) => Answer::Granted { first, last },
            Ok(Acquired::Busy { remaining, .. }) => Answer::Busy { remaining: remaining.unwrap_or_default() },
            Ok(Acquired::Reentered) => Answer::Reentered,
            Ok(Acquired::Late) => Answer::Late,
            _ => Answer::Gone { held_by_other: false },
        }
    }
}
