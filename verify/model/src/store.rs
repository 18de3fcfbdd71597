//! The store: the real rules, its data losses, and a check that each request only affects its own lease.

use crate::{
    laws::{Broken, Law},
    message::{Answer, Ask},
};
use lock_core::{
    backend::{AcquireMode, Acquired, LeaseId, LeaseNumber, ProcessId, Released, Renewed},
    clock::UtcTime,
};
use lock_testkit::planted::{BuggySlot, PlantedBug};
use std::time::Duration;
use uuid::Uuid;

/// The initial server clock.
const BEGIN: UtcTime = UtcTime::from_micros(1_000_000_000_000);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    slot: BuggySlot,
    /// An older state, as kept by a dump or a replica.
    saved: Option<Box<BuggySlot>>,
    /// The number of data losses.
    pub(crate) epoch: u8,
    /// The processes that subscribed, as bits.
    watchers: u8,
    /// `true` if an old state was restored, which may contain leases that no process knows any more.
    pub(crate) haunted: bool,
    /// `true` if a release freed the lock and all its wake-ups arrive.
    pub(crate) announced: bool,
    /// `true` if a release that leaves some depth was executed after its call had timed out. The stored depth is only
    /// informative, and may be wrong until the next change.
    pub(crate) blurred: bool,
    /// The time at which the last token was drawn.
    pub(crate) drawn_at: u64,
}

/// The holder, its depth and the remaining time.
pub(crate) type Held = Option<(LeaseId, u32, Duration)>;

pub(crate) fn server_time(now: u64) -> UtcTime {
    BEGIN + Duration::from_micros(now)
}

/// Returns the id of a lease. All processes have one process id, since copies of a process do: their numbers differ.
pub(crate) fn id_of(lease: LeaseNumber) -> LeaseId {
    LeaseId::new(ProcessId::from_uuid(Uuid::from_u128(1)), lease)
}

/// Returns the number before the first lease that this process draws.
pub(crate) fn draws_from(process: usize) -> u64 {
    (process as u64) << 32
}

/// Returns the process that drew this lease.
pub(crate) fn drawn_by(lease: LeaseNumber) -> usize {
    usize::try_from(lease.get() >> 32).unwrap_or(usize::MAX)
}

impl Store {
    pub(crate) fn new(bug: Option<PlantedBug>, used_before: bool) -> Self {
        let mut slot = BuggySlot::new(bug);
        if used_before {
            let before = UtcTime::from_micros(BEGIN.as_micros() - 1_000_000);
            let (lease, mode) =
                (id_of(LeaseNumber::new(u64::MAX)), AcquireMode::New { reserve: 0, floor: None });
            let _ = slot.acquire(before, lease, Duration::from_millis(1), before, mode, None);
            let _ = slot.release(before, lease, 0);
        }
        Self {
            slot,
            saved: None,
            epoch: 0,
            watchers: 0,
            haunted: false,
            announced: false,
            blurred: false,
            drawn_at: u64::MAX,
        }
    }

    pub(crate) fn held(&self, now: u64) -> Held {
        self.slot.clone().inspect(server_time(now))
    }

    /// Subscribes the copy of a process on its own connection, if the process is subscribed.
    pub(crate) fn copies(&mut self, process: usize, copy: usize) {
        self.watchers |= ((self.watchers >> process) & 1) << copy;
    }

    pub(crate) fn watchers(&self) -> impl Iterator<Item = usize> + use<> {
        let bits = self.watchers;
        (0..8).filter(move |process| bits & (1 << process) != 0)
    }

    pub(crate) fn save(&mut self) {
        self.saved = Some(Box::new(self.slot.clone()));
    }

    /// Returns `true` if a dump is possible: only once, and not of an empty store, which would equal a restart without
    /// data.
    pub(crate) fn can_save(&self) -> bool {
        self.saved.is_none() && !self.slot.is_empty()
    }

    pub(crate) fn can_restore(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| **saved != self.slot)
    }

    pub(crate) fn restore(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.slot = *saved;
        }
        self.haunted = true;
        self.lost_data();
    }

    pub(crate) fn restart_empty(&mut self) {
        self.slot.clear();
        self.lost_data();
    }

    /// Removes the lease before its end. The counter stays.
    pub(crate) fn evict(&mut self, now: u64) {
        if let Some((lease, ..)) = self.held(now) {
            let _ = self.slot.force_release(server_time(now), &lease.to_string());
        }
        self.lost_data();
    }

    fn lost_data(&mut self) {
        self.epoch += 1;
        self.announced = false;
    }

    /// Executes a request and checks its effect.
    pub(crate) fn execute(&mut self, now: u64, process: usize, ask: Ask) -> (Answer, Broken) {
        let before = self.held(now);
        let answer = self.answer(now, process, ask);
        let after = self.held(now);
        if let Answer::Granted { .. } = answer {
            self.drawn_at = now;
            self.announced = false;
            self.blurred = false;
        }
        self.announced |= matches!(answer, Answer::Released { .. });
        let mut broken = Broken::default();
        if let Some(lease) = ask.lease() {
            let own = id_of(lease);
            let was_own = before.is_some_and(|(lease, ..)| lease == own);
            if !was_own && before.is_some() {
                broken.unless(after == before, Law::OwnOnly);
            }
            if before.is_none() && !matches!(ask, Ask::Take { .. }) {
                broken.unless(after.is_none(), Law::NoResurrection);
            }
            if let (true, Some((_, _, left_before)), Some((lease, _, left))) = (was_own, before, after) {
                broken.unless(lease == own, Law::OwnOnly);
                broken.unless(left >= left_before, Law::Deadline);
            }
        }
        broken.unless(after.is_none_or(|(_, depth, _)| depth > 0), Law::Depth);
        (answer, broken)
    }

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
