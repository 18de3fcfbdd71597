//! The store: the real rules, its data losses, and a check that each request only affects its own lease.

use crate::{
    config::Config,
    laws::{Broken, Law},
    message::{Answer, Ask},
};
use lock_core::{
    FencingToken,
    backend::{
        AcquireMode, Acquired, LeaseId, LeaseNumber, PermitRequest, Place, ProcessId, Released, Renewed,
        Share,
    },
    clock::UtcTime,
    model::{Pool, Ruling},
};
use lock_testkit::planted::{BuggyPool, BuggySlot};
use std::time::Duration;
use uuid::Uuid;

/// The initial server clock.
const BEGIN: UtcTime = UtcTime::from_micros(1_000_000_000_000);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    data: Data,
    /// An older state, as kept by a dump or a replica.
    saved: Option<Box<Data>>,
    /// The number of data losses.
    pub(crate) epoch: u8,
    /// The processes that subscribed, as bits.
    watchers: u8,
    /// `true` if an old state was restored, which may contain leases that no process knows any more.
    pub(crate) haunted: bool,
    /// `true` if a release freed the lock and all its wake-ups arrive, or if the same is true of the latest change that
    /// made more room in the pool.
    pub(crate) announced: bool,
    /// `true` if a release that leaves some depth was executed after its call had timed out. The stored depth is only
    /// informative, and may be wrong until the next change.
    pub(crate) blurred: bool,
    /// The time at which the last token was drawn.
    pub(crate) drawn_at: u64,
}

/// The stored data: one of them is in use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Data {
    Lock(BuggySlot),
    Pool(BuggyPool),
}

/// The effect of a request.
pub(crate) struct Executed {
    pub(crate) answer: Answer,
    /// `true` if waiters are woken.
    pub(crate) wakes: bool,
    pub(crate) broken: Broken,
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
    pub(crate) fn new(config: &Config) -> Self {
        let mut slot = BuggySlot::new(config.bug);
        if config.used_before {
            let before = UtcTime::from_micros(BEGIN.as_micros() - 1_000_000);
            let (lease, mode) =
                (id_of(LeaseNumber::new(u64::MAX)), AcquireMode::New { reserve: 0, floor: None });
            let _ = slot.acquire(before, lease, Duration::from_millis(1), before, mode, None);
            let _ = slot.release(before, lease, 0);
        }
        Self {
            data: if config.is_pool() { Data::Pool(BuggyPool::new(config.bug)) } else { Data::Lock(slot) },
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
        match &self.data {
            Data::Lock(slot) => slot.clone().inspect(server_time(now)),
            Data::Pool(_) => None,
        }
    }

    /// Returns the holders and the waiters of the pool, if it is one.
    pub(crate) fn permits(&self, now: u64) -> Pool {
        match &self.data {
            Data::Lock(_) => Pool::default(),
            Data::Pool(pool) => pool.at(server_time(now)),
        }
    }

    /// Returns `true` if anything is held or waited for.
    pub(crate) fn is_taken(&self, now: u64) -> bool {
        let permits = self.permits(now);
        self.held(now).is_some() || !permits.holders.is_empty() || !permits.queue.is_empty()
    }

    /// Returns the true time, in µs, by which the first lease or place has ended, unless it is extended.
    pub(crate) fn next_end(&self, now: u64) -> Option<u64> {
        let permits = self.permits(now);
        let ends = permits.holders.values().chain(permits.queue.iter().map(|(_, permit)| permit));
        let ends = ends.map(|permit| (permit.ends_ms * 1_000).saturating_sub(BEGIN.as_micros()));
        let held = self.held(now).map(|(.., left)| now.saturating_add(micros(left)));
        ends.chain(held).min().map(|end| end.saturating_add(1_000))
    }

    /// Returns the token of a permit that a release granted to this place.
    pub(crate) fn unasked(&self, place: LeaseNumber) -> Option<FencingToken> {
        self.all_unasked().iter().find(|(id, _)| *id == id_of(place)).map(|(_, token)| *token)
    }

    /// Returns the places to which a release granted a permit.
    pub(crate) fn all_unasked(&self) -> &[(LeaseId, FencingToken)] {
        match &self.data {
            Data::Lock(_) => &[],
            Data::Pool(pool) => pool.unasked(),
        }
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
        self.saved = Some(Box::new(self.data.clone()));
    }

    /// Returns `true` if a dump is possible: only once, and not of an empty store, which would equal a restart without
    /// data.
    pub(crate) fn can_save(&self) -> bool {
        let is_empty = match &self.data {
            Data::Lock(slot) => slot.is_empty(),
            Data::Pool(pool) => pool.is_empty(),
        };
        self.saved.is_none() && !is_empty
    }

    pub(crate) fn can_restore(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| **saved != self.data)
    }

    pub(crate) fn restore(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.data = *saved;
        }
        self.haunted = true;
        self.lost_data();
    }

    pub(crate) fn restart_empty(&mut self) {
        match &mut self.data {
            Data::Lock(slot) => slot.clear(),
            Data::Pool(pool) => pool.clear(),
        }
        self.lost_data();
    }

    /// Removes the lease, or that of the first holder of the pool, before its end. The counter stays.
    pub(crate) fn evict(&mut self, now: u64) {
        let at = server_time(now);
        let first = self.permits(now).holders.into_keys().next();
        let held = self.held(now).map(|(lease, ..)| lease);
        match &mut self.data {
            Data::Lock(slot) => drop(held.map(|lease| slot.force_release(at, &lease.to_string()))),
            Data::Pool(pool) => drop(first.map(|lease| pool.force_release(at, &lease.to_string()))),
        }
        self.lost_data();
    }

    fn lost_data(&mut self) {
        self.epoch += 1;
        self.announced = false;
    }

    /// Executes a request and checks its effect.
    pub(crate) fn execute(&mut self, now: u64, process: usize, ask: Ask) -> Executed {
        if matches!(self.data, Data::Pool(_)) && ask.lease().is_some() {
            return self.execute_on_pool(now, ask);
        }
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
        Executed { answer, wakes: matches!(answer, Answer::Released { .. }), broken }
    }

    fn execute_on_pool(&mut self, now: u64, ask: Ask) -> Executed {
        let before = self.permits(now);
        let (answer, wakes) = self.rule(now, ask);
        let after = self.permits(now);
        let is_grant = matches!(answer, Answer::Granted { .. });
        if is_grant {
            self.drawn_at = now;
            self.announced = wakes;
        }
        self.announced |= wakes;
        let mut broken = Broken::default();
        let (lease, place) = (ask.lease().map(id_of), ask.place().map(id_of));
        let others = |pool: &Pool| -> Vec<_> {
            let holders = pool.holders.iter().map(|(id, permit)| (*id, *permit));
            let all = holders.chain(pool.queue.iter().copied());
            all.filter(|(id, _)| Some(*id) != lease && Some(*id) != place).collect()
        };
        broken.unless(others(&before) == others(&after), Law::OwnOnly);
        let own = |pool: &Pool| lease.and_then(|lease| pool.holders.get(&lease).copied());
        match (own(&before), own(&after)) {
            (Some(before), Some(after)) => {
                broken.unless(before.ends_ms <= after.ends_ms, Law::Deadline);
                broken.unless(after.weight <= before.weight, Law::Depth);
            }
            (None, Some(_)) => broken.unless(is_grant, Law::NoResurrection),
            _ => {}
        }
        if let (true, None, Ask::Permit { weight, limit, .. }) = (is_grant, own(&before), ask) {
            let ahead = before.queue.iter().take_while(|(id, _)| Some(*id) != place);
            let earlier = before.holders.values().chain(ahead.map(|(_, permit)| permit));
            let used: u64 = earlier.map(|permit| u64::from(permit.weight)).sum();
            broken.unless(used + u64::from(weight) <= u64::from(limit), Law::QueueOrder);
        }
        Executed { answer, wakes, broken }
    }

    /// Applies the rules of pools. Also returns whether waiters are woken.
    fn rule(&mut self, now: u64, ask: Ask) -> (Answer, bool) {
        let at = server_time(now);
        let listeners = self.watchers.count_ones();
        let Data::Pool(pool) = &mut self.data else { return (Answer::Done, false) };
        let gone = Answer::Gone { held_by_other: false };
        match ask {
            Ask::Permit { lease, duration, not_after, weight, limit, place } => {
                let place = place.map(|(id, patience)| Place { id: id_of(id), patience });
                let request = PermitRequest { share: Share { weight, limit }, place, floor: None };
                let Ruling { outcome, wakes } =
                    pool.acquire(at, id_of(lease), duration, not_after, request, None);
                let answer = match outcome {
                    Acquired::Granted { first, last } => Answer::Granted { first, last },
                    Acquired::Queued { remaining } => Answer::Queued { remaining },
                    Acquired::Busy { remaining } => Answer::Busy { remaining: remaining.unwrap_or_default() },
                    Acquired::Late => Answer::Late,
                    _ => gone,
                };
                (answer, wakes)
            }
            Ask::Renew { lease, duration, not_after } => {
                let Ruling { outcome, wakes } = pool.renew(at, id_of(lease), duration, not_after);
                let answer = match outcome {
                    Renewed::Renewed => Answer::Renewed,
                    Renewed::Late => Answer::Late,
                    _ => gone,
                };
                (answer, wakes)
            }
            Ask::Release { lease, depth_left } => {
                let Ruling { outcome, wakes } = pool.release(at, id_of(lease), depth_left);
                let answer = match outcome {
                    Released::Released { .. } => Answer::Released { listeners },
                    Released::Gone { held_by_other } => Answer::Gone { held_by_other },
                    _ => Answer::Kept,
                };
                (answer, wakes)
            }
            Ask::Take { .. } | Ask::Keep { .. } | Ask::Watch | Ask::Unwatch => (gone, false),
        }
    }

    /// Returns `true` if a permit of this weight and limit is granted now, to a process that nobody knows.
    pub(crate) fn grants(&self, now: u64, limit: u32) -> bool {
        let ask = Ask::Permit {
            lease: LeaseNumber::new(u64::MAX),
            duration: Duration::from_secs(1),
            not_after: server_time(now),
            weight: limit,
            limit,
            place: None,
        };
        matches!(self.clone().rule(now, ask), (Answer::Granted { .. }, _))
    }

    /// Ends the subscription of a process that is dead.
    pub(crate) fn forget(&mut self, process: usize) {
        self.watchers &= !(1 << process);
    }

    fn answer(&mut self, now: u64, process: usize, ask: Ask) -> Answer {
        let at = server_time(now);
        let listeners = self.watchers.count_ones();
        match (ask, &mut self.data) {
            (Ask::Watch, _) => {
                self.watchers |= 1 << process;
                Answer::Done
            }
            (Ask::Unwatch, _) => {
                self.forget(process);
                Answer::Done
            }
            (Ask::Take { lease, duration, not_after, reserve }, Data::Lock(slot)) => {
                let mode = AcquireMode::New { reserve, floor: None };
                acquire(slot, at, id_of(lease), duration, not_after, mode)
            }
            (Ask::Keep { lease, duration, not_after, depth }, Data::Lock(slot)) => {
                acquire(slot, at, id_of(lease), duration, not_after, AcquireMode::Reenter { depth })
            }
            (Ask::Renew { lease, duration, not_after }, Data::Lock(slot)) => {
                match slot.renew(at, id_of(lease), duration, not_after) {
                    Renewed::Renewed => Answer::Renewed,
                    Renewed::Late => Answer::Late,
                    _ => Answer::Gone { held_by_other: false },
                }
            }
            (Ask::Release { lease, depth_left }, Data::Lock(slot)) => {
                match slot.release(at, id_of(lease), depth_left) {
                    Released::Released { .. } => Answer::Released { listeners },
                    Released::Gone { held_by_other } => Answer::Gone { held_by_other },
                    _ => Answer::Kept,
                }
            }
            (Ask::Permit { .. }, Data::Lock(_)) | (_, Data::Pool(_)) => Answer::Gone { held_by_other: false },
        }
    }
}

fn acquire(
    slot: &mut BuggySlot,
    now: UtcTime,
    lease: LeaseId,
    duration: Duration,
    not_after: UtcTime,
    mode: AcquireMode,
) -> Answer {
    match slot.acquire(now, lease, duration, not_after, mode, None) {
        Acquired::Granted { first, last } => Answer::Granted { first, last },
        Acquired::Busy { remaining, .. } => Answer::Busy { remaining: remaining.unwrap_or_default() },
        Acquired::Reentered => Answer::Reentered,
        Acquired::Late => Answer::Late,
        _ => Answer::Gone { held_by_other: false },
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
