//! The state of a hold, as read by its guards and their views: its deadline, or how it ended.

use super::runtime::has_timer;
use crate::{
    clock::Clock,
    ids::{FencingToken, LeaseId, LeaseNumber},
    machine::{HoldEnd, HoldId, LostReason},
    name::LockName,
    owner::Owner,
    sync::{
        Handle, Id, Mutex, Sleep,
        atomic::{AtomicU64, Ordering},
        lock, rank, sleep,
    },
    time::Moment,
    wake::wake,
};
use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The parts of a factory that its holds use. A view that outlives the factory does not keep its connections.
pub(super) struct HoldContext {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watchdog: Weak<dyn Watchdog>,
}

/// The factory of a hold.
pub(super) trait Watchdog: Send + Sync {
    /// Starts the keeper's task unless it is running: its runtime may have ended, and nothing else would notice.
    fn ensure_runs(self: Arc<Self>);

    fn note(&self, name: &LockName, hold: HoldId, text: &str);

    /// Keeps the lease of the hold from being handed on, and returns the name of the lock in the store.
    fn pin(self: Arc<Self>, name: &LockName, hold: HoldId) -> Option<LockName>;
}

pub(crate) struct HoldState {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) since: Moment,
    lease: LeaseNumber,
    context: Arc<HoldContext>,
    max_hold_at: Moment,
    validity: Validity,
    waiting: WakerSet,
}

impl HoldState {
    pub(super) fn new(
        (name, owner): (LockName, Owner),
        HoldId { token, lease }: HoldId,
        (since, deadline, max_hold_at): (Moment, Moment, Moment),
        context: Arc<HoldContext>,
    ) -> Self {
        let validity = Validity::until(deadline);
        let waiting = WakerSet::default();
        Self { name, owner, token, since, lease, context, max_hold_at, validity, waiting }
    }

    /// Returns the id that the machine uses.
    pub(crate) fn id(&self) -> HoldId {
        HoldId { lease: self.lease, token: self.token }
    }

    /// Returns the id that the store uses.
    pub(crate) fn lease(&self) -> LeaseId {
        LeaseId::new(self.owner.process(), self.lease)
    }

    /// Returns how the hold ended, if it has. Checks the deadline against the clock, since a timer may fire late. The
    /// first task that finds the deadline passed ends the hold for everyone: no later reply from the store makes it
    /// valid again.
    pub(crate) fn ended(&self) -> Option<HoldEnd> {
        loop {
            let deadline = match self.validity.get() {
                Ok(deadline) => deadline,
                Err(how) => return Some(how),
            };
            if self.context.clock.now() < deadline.min(self.max_hold_at) {
                return None;
            }
            let max_hold = self.max_hold_at <= deadline;
            let how = HoldEnd::Lost(if max_hold { LostReason::MaxHold } else { LostReason::Expired });
            // Fails if the hold was extended, or ended by another task, in the meantime.
            if self.validity.end_at(deadline, how) {
                self.wake_waiting();
                return Some(how);
            }
        }
    }

    /// Sets the note on this hold. Does nothing once it has ended, since a further hold of its lease may have a note,
    /// or without a card.
    pub(crate) fn note(&self, text: &str) {
        if self.ended().is_none()
            && let Some(watchdog) = self.context.watchdog.upgrade()
        {
            watchdog.note(&self.name, self.id(), text);
        }
    }

    /// Keeps the lease from being handed on, and returns the name of the lock in the store. Returns `None` if the hold has
    /// ended.
    pub(crate) fn pin(&self) -> Option<LockName> {
        let stored = self.context.watchdog.upgrade()?.pin(&self.name, self.id())?;
        self.ended().is_none().then_some(stored)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.validity
            .get()
            .map_or(Duration::ZERO, |deadline| deadline.min(self.max_hold_at).since(self.context.clock.now()))
    }

    /// Extends the deadline. Returns `false` if the hold has already ended.
    pub(super) fn extend(&self, to: Moment) -> bool {
        self.validity.extend(to)
    }

    /// Ends the hold, unless it has already ended. The caller calls
    /// [`wake_waiting`](Self::wake_waiting) after it has released its mutex: wakers are foreign code.
    pub(super) fn end(&self, how: HoldEnd) {
        self.validity.end(how);
    }

    /// Wakes every task that waits for the hold to end.
    pub(super) fn wake_waiting(&self) {
        self.waiting.wake_all();
    }

    /// Returns a future that completes when the hold has ended.
    pub(crate) fn wait_ended(self: Arc<Self>) -> WaitEnded {
        WaitEnded { hold: self, key: WakerKey::default(), timer: DeadlineTimer::default() }
    }

    /// Returns the moment at which the hold ends unless it is renewed, or `Moment::NEVER` once it has ended.
    fn deadline(&self) -> Moment {
        self.validity.get().map_or(Moment::NEVER, |deadline| deadline.min(self.max_hold_at))
    }
}

/// Completes at the first poll after the hold has ended. Each poll checks the clock, and the future has its own timer:
/// after a pause of the process, this task may resume before the keeper, and a late keeper must not let work continue
/// under a lost lock.
pub(crate) struct WaitEnded {
    hold: Arc<HoldState>,
    key: WakerKey,
    timer: DeadlineTimer,
}

impl Future for WaitEnded {
    type Output = HoldEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HoldEnd> {
        let Self { hold, key, timer } = &mut *self;
        if let Some(how) = hold.ended() {
            return Poll::Ready(how);
        }
        hold.waiting.register(key, cx.waker());
        if let Some(watchdog) = hold.context.watchdog.upgrade() {
            watchdog.ensure_runs();
        }
        loop {
            // Checked again, since the hold may have ended before the registration.
            if let Some(how) = hold.ended() {
                return Poll::Ready(how);
            }
            let (deadline, remaining) = (hold.deadline(), hold.remaining());
            if timer.poll(cx, deadline, remaining).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for WaitEnded {
    fn drop(&mut self) {
        self.hold.waiting.remove(&self.key);
    }
}

impl fmt::Debug for HoldState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", &self.name)
            .field("token", &self.token)
            .field("lease", &self.lease())
            .field("validity", &self.validity.get())
            .finish_non_exhaustive()
    }
}

/// The deadline of a hold, or how it ended. One atomic number, since each step of a request reads it: the deadline in
/// microseconds or, once the hold has ended, `u64::MAX` minus the place of the end in [`ENDS`].
struct Validity(AtomicU64);

const ENDS: [HoldEnd; 6] = [
    HoldEnd::Released,
    HoldEnd::Lost(LostReason::Expired),
    HoldEnd::Lost(LostReason::Gone),
    HoldEnd::Lost(LostReason::MaxHold),
    HoldEnd::Lost(LostReason::Unclaimed),
    HoldEnd::Lost(LostReason::ShutDown),
];

/// The latest deadline that can be stored, about 585,000 years after the start of the clock.
const LAST: u64 = u64::MAX - ENDS.len() as u64;

impl Validity {
    fn until(deadline: Moment) -> Self {
        Self(AtomicU64::new(of_deadline(deadline)))
    }

    /// Returns the deadline, or how the hold ended.
    fn get(&self) -> Result<Moment, HoldEnd> {
        read(self.0.load(Ordering::Acquire))
    }

    /// Extends the deadline. Returns `false` if the hold has already ended.
    fn extend(&self, to: Moment) -> bool {
        self.change(|deadline| Some(deadline.max(of_deadline(to))))
    }

    /// Ends the hold. Returns `false` if it has already ended.
    fn end(&self, how: HoldEnd) -> bool {
        self.change(|_| Some(of_end(how)))
    }

    /// Ends the hold if its deadline is still this one. Returns `false` if it is not.
    fn end_at(&self, deadline: Moment, how: HoldEnd) -> bool {
        self.change(|current| (current == of_deadline(deadline)).then(|| of_end(how)))
    }

    /// Changes the number of a hold that has not ended.
    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        let change = |current| if current <= LAST { change(current) } else { None };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }
}

fn read(number: u64) -> Result<Moment, HoldEnd> {
    let place = usize::try_from(u64::MAX - number).ok();
    match place.and_then(|place| ENDS.get(place)) {
        Some(how) => Err(*how),
        None => Ok(Moment::from_micros(number)),
    }
}

fn of_deadline(deadline: Moment) -> u64 {
    deadline.as_micros().min(LAST)
}

fn of_end(how: HoldEnd) -> u64 {
    let place = match how {
        HoldEnd::Released => 0,
        HoldEnd::Lost(LostReason::Expired) => 1,
        HoldEnd::Lost(LostReason::Gone) => 2,
        HoldEnd::Lost(LostReason::MaxHold) => 3,
        HoldEnd::Lost(LostReason::Unclaimed) => 4,
        HoldEnd::Lost(LostReason::ShutDown) => 5,
    };
    u64::MAX - place
}

/// The wakers of tasks that wait for the same event.
#[derive(Debug, Default)]
struct WakerSet(Mutex<rank::Wakers, Wakers>);

#[derive(Debug, Default)]
struct Wakers {
    last_key: u64,
    by_key: BTreeMap<u64, Waker>,
}

/// The key of a waiting task in a [`WakerSet`]. The task removes it when it stops waiting.
#[derive(Debug, Default)]
struct WakerKey(Option<u64>);

impl WakerSet {
    /// Sets the waker of this key.
    fn register(&self, key: &mut WakerKey, waker: &Waker) {
        let waker = waker.clone();
        let before = {
            let mut wakers = lock(&self.0);
            let key = *key.0.get_or_insert_with(|| {
                wakers.last_key += 1;
                wakers.last_key
            });
            wakers.by_key.insert(key, waker)
        };
        drop(before);
    }

    fn remove(&self, key: &WakerKey) {
        let before = key.0.and_then(|key| lock(&self.0).by_key.remove(&key));
        drop(before);
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut lock(&self.0).by_key);
        wakers.into_values().for_each(wake);
    }
}

/// Wakes the polling task at a deadline that may move, in any runtime.
#[derive(Default)]
struct DeadlineTimer {
    armed: Option<(Id, Moment, Pin<Box<Sleep>>)>,
}

impl DeadlineTimer {
    /// Completes when `after` has passed since this deadline was first polled in this runtime. Stays pending without a
    /// timer.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Moment, after: Duration) -> Poll<()> {
        let Ok(runtime) = Handle::try_current() else { return Poll::Pending };
        let here = |(id, at, _): &(Id, Moment, _)| (*id, *at) == (runtime.id(), deadline);
        if let Some((id, at, mut sleep)) = self.armed.take().filter(here) {
            let fired = sleep.as_mut().poll(cx);
            self.armed = fired.is_pending().then_some((id, at, sleep));
            return fired;
        }
        if !has_timer() {
            return Poll::Pending;
        }
        let mut sleep = Box::pin(sleep(after));
        // A runtime that has ended reveals this only by panicking. The keeper then wakes the task.
        let first = catch_unwind(AssertUnwindSafe(|| sleep.as_mut().poll(cx)));
        if let Ok(Poll::Pending) = first {
            self.armed = Some((runtime.id(), deadline, sleep));
        }
        first.unwrap_or(Poll::Pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_end_is_stored() {
        for how in ENDS {
            let validity = Validity::until(Moment::START);
            assert!(validity.end(how));
            assert_eq!(validity.get(), Err(how));
        }
    }

    #[test]
    fn deadline_only_grows() {
        let (early, late) = (Moment::START, Moment::START + Duration::from_secs(1));
        let validity = Validity::until(early);
        assert!(validity.extend(late) && validity.extend(early));
        assert_eq!(validity.get(), Ok(late));
    }

    #[test]
    fn endless_deadline_is_no_end() {
        let validity = Validity::until(Moment::NEVER);
        assert_eq!(validity.get(), Ok(Moment::from_micros(LAST)));
        assert!(validity.extend(Moment::NEVER));
        assert!(validity.get().is_ok());
    }

    #[test]
    fn first_end_is_final() {
        let validity = Validity::until(Moment::START);
        assert!(validity.end(HoldEnd::Released));
        assert!(!validity.end(HoldEnd::Lost(LostReason::Gone)));
        assert!(!validity.extend(Moment::NEVER));
        assert_eq!(validity.get(), Err(HoldEnd::Released));
    }

    #[test]
    fn extended_hold_does_not_end_at_its_former_deadline() {
        let (before, after) = (Moment::START, Moment::START + Duration::from_secs(1));
        let (validity, expired) = (Validity::until(before), HoldEnd::Lost(LostReason::Expired));
        assert!(validity.extend(after));
        assert!(!validity.end_at(before, expired));
        assert!(validity.end_at(after, expired));
        assert_eq!(validity.get(), Err(expired));
    }
}
