//! The store's answers: those of the store rules, or of a planted bug.

use super::{Store, id_of, server_time};
use crate::message::{Answer, Ask};
use lock_core::{
    backend::{AcquireMode, Acquired, LeaseId, Released, Renewed},
    clock::UtcTime,
};
use std::time::Duration;

impl Store {
    pub(super) fn answer(&mut self, now: u64, process: usize, ask: Ask) -> Answer {
        let at = server_time(now);
        match ask {
            Ask::Take { lease, duration, not_after, reserve } => {
                let mode = AcquireMode::New { reserve, floor: None };
                self.acquire(at, id_of(lease), duration, not_after, mode)
            }
            Ask::Keep { lease, duration, not_after, depth } => {
                self.acquire(at, id_of(lease), duration, not_after, AcquireMode::Reenter { depth })
            }
            Ask::Renew { lease, duration, not_after } => {
                match self.slot.renew(at, id_of(lease), duration, not_after) {
                    Renewed::Renewed => Answer::Renewed,
                    Renewed::Late => Answer::Late,
                    _ => Answer::Gone { held_by_other: false },
                }
            }
            Ask::Release { lease, depth_left } => match self.slot.release(at, id_of(lease), depth_left) {
                Released::Released { .. } => Answer::Released { listeners: self.watchers.count_ones() },
                Released::Gone { held_by_other } => Answer::Gone { held_by_other },
                _ => Answer::Kept,
            },
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
        now: UtcTime,
        lease: LeaseId,
        duration: Duration,
        not_after: UtcTime,
        mode: AcquireMode,
    ) -> Answer {
        match self.slot.acquire(now, lease, duration, not_after, mode, None) {
            Acquired::Granted { first, last } => Answer::Granted { first, last },
            Acquired::Busy { remaining, .. } => Answer::Busy { remaining: remaining.unwrap_or_default() },
            Acquired::Reentered => Answer::Reentered,
            Acquired::Late => Answer::Late,
            _ => Answer::Gone { held_by_other: false },
        }
    }
}
