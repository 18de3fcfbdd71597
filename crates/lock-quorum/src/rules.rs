//! Requests to a node, its replies, and the rules by which it decides them, as pure functions of its record of one
//! name.

use lock_core::{
    __private::Slot,
    FencingToken, LockName, Retention,
    backend::{AcquireMode, Acquired, Floor, LeaseId, Renewed},
    clock::UtcTime,
};
use std::time::Duration;

/// Maximum distance between a proposed token and a node's clock, or the node's counter if it is ahead of the clock.
/// Tokens are times in microseconds.
pub const MAX_CLOCK_DISTANCE: Duration = Duration::from_secs(1);

/// Minimum time for which a node keeps a counter, regardless of the requested retention. A node grants tokens up to
/// [`MAX_CLOCK_DISTANCE`] ahead of and behind its clock, so tokens could decrease if a counter expired earlier.
pub const MIN_COUNTER_RETENTION: Duration = Duration::from_secs(3);

/// Exclusive upper bound of tokens, so that a double represents them exactly.
const TOKEN_BOUND: u64 = 1 << 53;

/// A request to grant a lock with exactly this token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The lock.
    pub name: LockName,
    /// The lease that a grant stores.
    pub lease: LeaseId,
    /// Duration of the lease, counted from the execution of the request, in whole milliseconds.
    pub duration: Duration,
    /// Latest time, by this node's clock, at which the request may be executed.
    pub not_after: UtcTime,
    /// The proposed token.
    pub token: FencingToken,
    /// End of the token range, to which a grant raises the counter; at least `token`.
    pub last: FencingToken,
    /// Floor that the application requested. It may be far above the node's clock.
    pub floor: Floor,
    /// Minimum time for which the node must have kept its data to vote; zero for a durable node.
    pub min_age: Duration,
    /// Time for which a grant keeps the counter.
    pub retention: Retention,
}

/// A node's reply to a [`Proposal`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The lease is stored with the proposed token.
    Granted,
    /// Another lease holds the lock.
    Busy {
        /// Lease id of the holder, as stored.
        holder: String,
        /// Remaining time of its lease; `None` if unknown.
        remaining: Option<Duration>,
        /// Last token that was granted or reserved.
        counter: u64,
    },
    /// The token is not above the counter.
    Stale {
        /// Last token that was granted or reserved.
        counter: u64,
    },
    /// The token is too far from the node's clock.
    ClockOff,
    /// The node has not kept its data for long enough to vote. Nothing was stored.
    Quarantined,
    /// The request arrived after its `not_after` and had no effect.
    Late,
}

/// A request to extend one lease on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// Minimum duration of the lease, counted from the execution of the request.
    pub duration: Duration,
    /// Latest time, by this node's clock, at which the request may be executed.
    pub not_after: UtcTime,
    /// Depth to store; `None` keeps the stored depth.
    pub depth: Option<u32>,
}

/// A node's reply to an [`Extension`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extended {
    /// The lease lasts at least as long as requested.
    Extended,
    /// The node does not have the lease.
    Gone,
    /// The request arrived after its `not_after` and had no effect.
    Late,
}

/// A request to restore a lease on a node that lost it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healing {
    /// The lock.
    pub name: LockName,
    /// The lease.
    pub lease: LeaseId,
    /// Minimum duration of the lease, counted from the execution of the request.
    pub duration: Duration,
    /// Latest time, by this node's clock, at which the request may be executed.
    pub not_after: UtcTime,
    /// Depth to store if the node does not have the lease.
    pub depth: u32,
    /// End of the hold's token range. The counter is raised to it and never lowered.
    pub last: FencingToken,
    /// Time for which the counter is kept.
    pub retention: Retention,
}

/// A node's reply to a [`Healing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Healed {
    /// The node has the lease.
    Set,
    /// Another lease holds the lock. Nothing was stored.
    Busy,
    /// The request arrived after its `not_after` and had no effect.
    Late,
}

/// Votes on a proposal. `age` is the time for which the store has kept its data.
pub fn propose(
    slot: &mut Slot,
    now: UtcTime,
    age: Duration,
    p: &Proposal,
    retention: Option<Duration>,
) -> Vote {
    slot.expire(now);
    if now > p.not_after {
        return Vote::Late;
    }
    if age < p.min_age {
        return Vote::Quarantined;
    }
    let held = slot.inspect(now);
    let counter = slot.last_token();
    if let Some((holder, _, remaining)) = held.filter(|(holder, ..)| *holder != p.lease) {
        return Vote::Busy { holder: holder.to_string(), remaining: Some(remaining), counter };
    }
    let is_repeat = held.is_some() && counter == p.last.get();
    if !is_repeat {
        if p.token.get() <= counter {
            return Vote::Stale { counter };
        }
        if !is_near_clock(now, counter, p) {
            return Vote::ClockOff;
        }
        slot.set_last_token(now, p.last.get(), at_least(retention));
    }
    slot.hold(now, p.lease, p.duration, 1);
    Vote::Granted
}

/// Restores a lease that the store lost, unless another holds the lock.
pub fn heal(slot: &mut Slot, now: UtcTime, h: &Healing, retention: Option<Duration>) -> Healed {
    slot.expire(now);
    if now > h.not_after {
        return Healed::Late;
    }
    let held = slot.inspect(now);
    if held.is_some_and(|(holder, ..)| holder != h.lease) {
        return Healed::Busy;
    }
    slot.set_last_token(now, slot.last_token().max(h.last.get()), at_least(retention));
    slot.hold(now, h.lease, h.duration, h.depth);
    Healed::Set
}

/// Extends an existing lease, and sets its depth if one is given.
pub fn extend(slot: &mut Slot, now: UtcTime, e: &Extension) -> Extended {
    let Extension { lease, duration, not_after, depth, .. } = *e;
    let Some(depth) = depth else {
        return match slot.renew(now, lease, duration, not_after) {
            Renewed::Renewed => Extended::Extended,
            Renewed::Late => Extended::Late,
            _ => Extended::Gone,
        };
    };
    match slot.acquire(now, lease, duration, not_after, AcquireMode::Reenter { depth }, None) {
        Acquired::Reentered => Extended::Extended,
        Acquired::Late => Extended::Late,
        _ => Extended::Gone,
    }
}

/// Returns the retention of a counter in a node. The counter is kept at least until the clock of the node rules out
/// every lower token.
fn at_least(retention: Option<Duration>) -> Option<Duration> {
    retention.map(|retention| retention.max(MIN_COUNTER_RETENTION))
}

/// Returns `true` if the proposal is near the clock. Otherwise a client whose clock is years ahead would raise every
/// counter forever, and one that is behind would reuse tokens that were issued before a loss of the counter.
fn is_near_clock(now: UtcTime, counter: u64, p: &Proposal) -> bool {
    let (clock, distance) = (now.as_micros(), UtcTime::default() + MAX_CLOCK_DISTANCE);
    let floor = p.floor.map_or(0, |floor| floor.get());
    let highest = counter.max(clock).max(floor).saturating_add(distance.as_micros());
    p.token.get() > clock.saturating_sub(distance.as_micros())
        && p.token.get() <= highest
        && p.last.get() <= highest
        && p.last.get() < TOKEN_BOUND
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::{
        FencingToken, LockName, Retention,
        backend::{LeaseId, LeaseNumber, ProcessId},
    };

    const LEASE: Duration = Duration::from_secs(30);
    const NOW: UtcTime = UtcTime::from_micros(1_767_225_600_000_000);

    fn lease() -> LeaseId {
        LeaseId::new(ProcessId::random(), LeaseNumber::new(1))
    }

    #[test]
    fn node_keeps_its_counter_until_the_clock_rules_out_lower_tokens() {
        let (second, retention) = (Duration::from_secs(1), Retention::For(Duration::from_secs(1)));
        let proposal = |lease, token: UtcTime| Proposal {
            name: LockName::new("x").unwrap(),
            lease,
            duration: LEASE,
            not_after: NOW + LEASE,
            token: FencingToken::new(token.as_micros()),
            last: FencingToken::new(token.as_micros()),
            floor: None,
            min_age: Duration::ZERO,
            retention,
        };
        let mut slot = Slot::default();
        let ahead = proposal(lease(), NOW + second * 9 / 10);
        assert_eq!(propose(&mut slot, NOW, LEASE, &ahead, Some(second)), Vote::Granted);
        slot.release(NOW, ahead.lease, 0);
        let later = NOW + second * 12 / 10;
        let behind = proposal(lease(), NOW + second * 3 / 10);
        let counter = ahead.token.get();
        assert_eq!(propose(&mut slot, later, LEASE, &behind, Some(second)), Vote::Stale { counter });
    }
}
