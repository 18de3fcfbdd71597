//! The output of a machine: its commands, and the context in which it emits them. Requests get their lease id, their
//! `not_after` and their back-off here.

use super::event::{Env, HoldId, OwnerId, Ticket, WaiterId};
use crate::{
    backend::{AcquireMode, AcquireRequest, Applied, NotifyWaiters, Operation, ReleaseRequest, RenewRequest},
    ids::{FencingToken, LeaseId, LeaseNumber},
    name::LockName,
    options::Terms,
    time::{Moment, UtcTime},
};
use std::time::Duration;

const FIRST_RETRY: Duration = Duration::from_millis(50);
pub(super) const SLOWEST_RETRY: Duration = Duration::from_secs(2);
/// Consecutive *late* replies that are attributed to a wrong clock estimate; further ones count as failures.
pub(super) const MAX_CONSECUTIVE_LATE: u32 = 3;

/// An action to carry out. The first three are I/O: exactly one event reports the result of each, at the latest when
/// its timeout has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Submit an operation to the store.
    Io {
        /// The operation.
        operation: Operation,
        /// The time after which its outcome counts as unknown.
        timeout: Duration,
    },
    /// Subscribe to wake-ups.
    Watch,
    /// End the subscription.
    Unwatch,
    /// The waiter acquired the lock.
    Grant {
        /// The waiter.
        waiter: WaiterId,
        /// The grant.
        grant: Grant,
    },
    /// The waiter will not get the lock.
    Refuse {
        /// The waiter.
        waiter: WaiterId,
        /// The reason.
        refusal: Refusal,
    },
    /// The hold was extended.
    Extended {
        /// The hold.
        hold: HoldId,
        /// The new deadline; never earlier than before.
        deadline: Moment,
    },
    /// The hold has ended; emitted exactly once per hold.
    Ended {
        /// The hold.
        hold: HoldId,
        /// The way in which the hold ended.
        how: HoldEnd,
    },
    /// The result of a guard's release. An explicit release is answered once the store has answered, and a drop
    /// immediately.
    ReleaseAnswered {
        /// The release that waits for the reply; `None` for a dropped guard.
        ticket: Option<Ticket>,
        /// The result.
        answer: ReleaseAnswer,
    },
    /// An event for observers.
    Notice(Notice),
}

/// A grant to a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The hold: its lease in the store and its fencing token.
    pub hold: HoldId,
    /// The owner.
    pub owner: OwnerId,
    /// The end of the hold unless it is renewed.
    pub deadline: Moment,
    /// The end of the hold even if it is renewed; never changes.
    pub max_hold_at: Moment,
    /// The number of guards that the hold has now.
    pub depth: u32,
    /// The origin of the grant.
    pub by: GrantSource,
}

/// The origin of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GrantSource {
    /// The store granted the lock to this process.
    Store,
    /// The owner already held it.
    Reentry,
    /// The previous holder in this process handed its lease over.
    HandOff,
}

/// The reason why a waiter does not get the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The caller wanted a single attempt, and others hold the lock or wait for it.
    Busy,
    /// The waiting time passed while others held the lock or were ahead in the queue. `Unknown` if the waiter's own
    /// attempt is in flight or in doubt; that attempt is undone.
    Timeout(Applied),
    /// Too many acquires wait for this name.
    TooManyWaiters,
    /// The backend failed for longer than the outage budget.
    Outage,
    /// As `Outage`, or the waiting time passed, while a request with an unknown outcome is pending; that request is
    /// undone.
    Unanswered,
    /// The request failed, and a retry is pointless or not wanted. An attempt that may have been applied is undone.
    Failed(Applied),
    /// Too many earlier attempts are being undone, and the backend has executed none of these undos.
    TooManyUndos,
    /// The operating system has no random number for the lease id.
    NoRandom,
    /// The hold to re-enter was lost.
    Lost,
    /// The token of the hold to re-enter does not exceed the floor.
    BelowFloor(FencingToken),
    /// The factory is shutting down.
    ShutDown,
}

/// The end of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldEnd {
    /// Its last guard was released.
    Released,
    /// It was lost before its guards were released.
    Lost(LostReason),
}

/// The reason why a hold was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// Its deadline passed without a renewal, or its fixed lease expired.
    Expired,
    /// The store no longer had the lease: it was forcibly released, or the store lost its data.
    Gone,
    /// The hold reached `max_hold`.
    MaxHold,
    /// The future that acquired it was not polled for half a lease, so the guard was never taken.
    Unclaimed,
    /// The factory was shut down.
    ShutDown,
}

/// The result of a release that the store confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The lock was held until now and is free.
    Released,
    /// The lock was held until now and passed to the next waiter in this process, with a higher fencing token; see
    /// [`LockOptions::hand_off`](crate::LockOptions::hand_off). The store was not asked, since the deadline of
    /// the hold had not passed.
    HandedOn,
    /// The lock was held until now and is not free: its owner has further guards, or its [minimum
    /// hold](crate::LockOptions::min_hold) has not passed.
    StillHeld {
        /// The number of remaining guards; 0 if only the minimum hold keeps the lock.
        depth: u32,
    },
    /// The hold had already ended: work after its end was not protected.
    AlreadyExpired,
    /// The hold had already ended, and another holder has the lock by now: work after its end was not protected. A
    /// store may look for the other holder only after the release, so a waiter that was granted the lock meanwhile
    /// counts.
    HeldByOther,
}

impl ReleaseOutcome {
    /// Returns `true` if the lock was held until the release, so that all work was protected.
    #[must_use]
    pub fn was_held(self) -> bool {
        match self {
            Self::Released | Self::HandedOn | Self::StillHeld { .. } => true,
            Self::AlreadyExpired | Self::HeldByOther => false,
        }
    }
}

/// The store did not confirm that the lock was held until its release. Either it did not reply in time (the release is
/// then repeated in the background until the store executes it or the lease expires), or an earlier reply was lost and
/// the lease was gone when the release was repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unconfirmed;

/// The result of a release.
pub type ReleaseAnswer = Result<ReleaseOutcome, Unconfirmed>;

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// The lease was extended.
    Renewed,
    /// The store no longer had the lease.
    Gone,
    /// The store returned an error, received the request too late, or did not reply.
    Failed,
}

/// An event for observers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notice {
    /// A renewal was answered, or given up.
    Renewal {
        /// The outcome.
        outcome: RenewalOutcome,
        /// The time since the renewal was sent.
        took: Duration,
        /// The remaining validity of the hold; zero if it has ended.
        remaining: Duration,
    },
    /// A renewal failed; the hold is suspect, and the renewal is retried until the deadline.
    RenewalFailed {
        /// The fencing token of the hold.
        token: FencingToken,
        /// The remaining validity of the hold.
        remaining: Duration,
        /// The number of failures since the latest success.
        failures: u32,
    },
    /// The first waiter, which has no limit, has waited for longer than two of its leases for a hold in another
    /// process.
    LongWait {
        /// The time that it has waited.
        waited: Duration,
    },
    /// A task in this process has waited longer than a lease for a hold in the same process, perhaps its own.
    SelfDeadlock {
        /// The fencing token of the hold.
        token: FencingToken,
        /// The time that the task has waited.
        waited: Duration,
    },
}

/// The context of one call to `Machine::handle`.
pub(super) struct Ctx<'a> {
    pub(super) now: Moment,
    pub(super) env: &'a mut dyn Env,
    pub(super) out: &'a mut Vec<Command>,
}

impl Ctx<'_> {
    pub(super) fn emit(&mut self, command: Command) {
        self.out.push(command);
    }

    pub(super) fn refuse(&mut self, waiter: WaiterId, refusal: Refusal) {
        self.emit(Command::Refuse { waiter, refusal });
    }

    /// Requests a lease, or a greater depth, under these terms. Returns the server time at which the request becomes
    /// void.
    pub(super) fn acquire(&mut self, lease: LeaseNumber, mode: AcquireMode, terms: &Terms) -> UtcTime {
        let ((name, lease), not_after) = (self.address(lease), self.not_after(terms));
        let (duration, retention) = (terms.lease, terms.retention);
        let request = AcquireRequest { name, lease, duration, not_after, mode, retention };
        self.submit(Operation::Acquire(request), terms.operation_timeout);
        not_after
    }

    /// Extends a lease under these terms.
    pub(super) fn renew(&mut self, lease: LeaseNumber, terms: &Terms) {
        let ((name, lease), not_after) = (self.address(lease), self.not_after(terms));
        let request = RenewRequest { name, lease, duration: terms.lease, not_after };
        self.submit(Operation::Renew(request), terms.operation_timeout);
    }

    /// Lowers the depth of a lease, or frees the lock.
    pub(super) fn release(
        &mut self,
        lease: LeaseNumber,
        depth_left: u32,
        notify: NotifyWaiters,
        timeout: Duration,
    ) {
        let (name, lease) = self.address(lease);
        self.submit(Operation::Release(ReleaseRequest { name, lease, depth_left, notify }), timeout);
    }

    fn submit(&mut self, operation: Operation, timeout: Duration) {
        self.emit(Command::Io { operation, timeout });
    }

    pub(super) fn lease_id(&self, lease: LeaseNumber) -> LeaseId {
        LeaseId::new(self.env.address().1, lease)
    }

    fn address(&self, lease: LeaseNumber) -> (LockName, LeaseId) {
        let (name, process) = self.env.address();
        (name, LeaseId::new(process, lease))
    }

    /// Returns the server time at which a request that is sent now becomes void.
    fn not_after(&mut self, terms: &Terms) -> UtcTime {
        self.env.server_now() + terms.operation_timeout
    }

    pub(super) fn fresh_lease(&mut self) -> Option<LeaseNumber> {
        self.env.unique().map(LeaseNumber::new)
    }

    /// Returns a random time below `most`.
    pub(super) fn jitter(&mut self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.env.jitter() % micros)
    }

    /// Returns the time of attempt number `failures` + 1: after 50 ms, doubling up to 2 s, plus jitter of up to a
    /// quarter, so that the processes in a fleet do not retry in step. The delay is always shorter than the operation
    /// timeout, so that a failed operation is repeated and answered within two timeouts after the store answers again.
    pub(super) fn retry_at(&mut self, failures: u32, timeout: Duration) -> Moment {
        let slowest = slowest_retry(timeout).max(Duration::from_millis(1));
        let base = (FIRST_RETRY * 2u32.saturating_pow(failures.saturating_sub(1).min(16))).min(slowest);
        self.now + base + self.jitter(base / 4)
    }
}

/// Returns the longest delay before an operation with this timeout is repeated.
pub(super) fn slowest_retry(timeout: Duration) -> Duration {
    SLOWEST_RETRY.min(timeout / 4 * 3)
}
