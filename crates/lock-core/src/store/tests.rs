//! Tests of the store rules: the expected states, and the counter-examples behind the rules.

use super::*;
use crate::ids::{LeaseNumber, ProcessId};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);
const NOW: UtcTime = UtcTime::from_micros(1_767_225_600_000_000);
const DAY: Option<Duration> = Some(Duration::from_secs(86_400));

fn lease(process: u128, number: u64) -> LeaseId {
    LeaseId::new(ProcessId::from_uuid(Uuid::from_u128(process)), LeaseNumber::new(number))
}

fn take(slot: &mut Slot, now: UtcTime, lease: LeaseId) -> Acquired {
    take_for(slot, now, lease, LEASE)
}

fn take_for(slot: &mut Slot, now: UtcTime, lease: LeaseId, duration: Duration) -> Acquired {
    let mode = AcquireMode::New { reserve: 0, floor: None };
    slot.acquire(now, lease, duration, now + Duration::from_secs(3), mode, DAY)
}

fn keep(slot: &mut Slot, now: UtcTime, lease: LeaseId, depth: u32, duration: Duration) -> Acquired {
    slot.acquire(now, lease, duration, now, AcquireMode::Reenter { depth }, DAY)
}

fn token(acquired: &Acquired) -> FencingToken {
    match acquired {
        Acquired::Granted { first, .. } => *first,
        other => panic!("not granted: {other:?}"),
    }
}

#[test]
fn one_holds_and_the_other_learns_the_remaining_time() {
    let (mut slot, a, b) = (Slot::default(), lease(1, 1), lease(2, 9));
    token(&take(&mut slot, NOW, a));
    assert_eq!(slot.inspect(NOW), Some((a, 1, LEASE)));
    assert_eq!(keep(&mut slot, NOW, a, 2, LEASE), Acquired::Reentered);
    assert_eq!(slot.inspect(NOW), Some((a, 2, LEASE)));

    let before = slot.clone();
    let later = NOW + Duration::from_secs(10);
    assert_eq!(take(&mut slot, later, b), Acquired::Busy { remaining: Some(Duration::from_secs(20)) });
    assert_eq!(slot.release(later, b, 0), Released::Gone { held_by_other: true });
    assert_eq!(slot.renew(later, b, LEASE, later), Renewed::Gone);
    assert_eq!(slot, before, "nothing was written");

    assert_eq!(slot.release(later, a, 1), Released::Kept);
    assert_eq!(
        slot.inspect(later),
        Some((a, 1, Duration::from_secs(20))),
        "a release does not touch the expiry"
    );
    assert_eq!(slot.release(later, a, 0), Released::Released { listeners: None });
    assert_eq!(slot.inspect(later), None);
}

#[test]
fn acquire_sent_twice_is_freed_by_one_release() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    let first = token(&take(&mut slot, NOW, a));
    let again = token(&take(&mut slot, NOW, a));
    assert!(again > first, "a repeat draws new tokens; the client uses exactly one answer");
    assert_eq!(slot.inspect(NOW), Some((a, 1, LEASE)));
    assert_eq!(slot.release(NOW, a, 0), Released::Released { listeners: None });
    assert_eq!(slot.release(NOW, a, 0), Released::Gone { held_by_other: false });
}

#[test]
fn reentry_or_renewal_after_the_release_creates_nothing() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    take(&mut slot, NOW, a);
    slot.release(NOW, a, 0);
    assert_eq!(keep(&mut slot, NOW, a, 2, LEASE), Acquired::Gone);
    assert_eq!(slot.renew(NOW, a, LEASE, NOW), Renewed::Gone);
    assert_eq!(slot.inspect(NOW), None);
}

#[test]
fn inner_hold_of_one_second_does_not_shorten_thirty() {
    let (mut slot, a, short) = (Slot::default(), lease(1, 1), Duration::from_secs(1));
    take(&mut slot, NOW, a);
    keep(&mut slot, NOW, a, 2, short);
    slot.renew(NOW, a, short, NOW);
    take_for(&mut slot, NOW, a, short);
    assert_eq!(slot.inspect(NOW).unwrap().2, LEASE);
}

#[test]
fn acquire_delivered_late_is_not_executed() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    let mode = AcquireMode::New { reserve: 0, floor: None };
    let too_late = NOW + Duration::from_micros(1);
    assert_eq!(slot.acquire(too_late, a, LEASE, NOW, mode.clone(), DAY), Acquired::Late);
    assert!(slot.is_empty(), "no lease, and no token drawn");
    assert!(matches!(slot.acquire(NOW, a, LEASE, NOW, mode, DAY), Acquired::Granted { .. }));
}

#[test]
fn expired_lease_cannot_be_revived() {
    let (mut slot, a, b) = (Slot::default(), lease(1, 1), lease(2, 9));
    take(&mut slot, NOW, a);
    let end = NOW + LEASE;
    assert_eq!(
        slot.clone().renew(end, a, LEASE, end),
        Renewed::Renewed,
        "as in Redis, the last millisecond counts"
    );
    let over = end + Duration::from_millis(1);
    assert_eq!(slot.renew(over, a, LEASE, over), Renewed::Gone);
    assert!(matches!(take(&mut slot, over, b), Acquired::Granted { .. }));
    assert_eq!(slot.release(over, a, 0), Released::Gone { held_by_other: true });
}

#[test]
fn force_release_affects_only_the_observed_holder() {
    let (mut slot, a, b) = (Slot::default(), lease(1, 1), lease(2, 9));
    take(&mut slot, NOW, a);
    assert_eq!(slot.force_release(NOW, &a.to_string()), ForceReleased::Released);
    take(&mut slot, NOW, b);
    assert_eq!(
        slot.force_release(NOW, &a.to_string()),
        ForceReleased::HolderChanged,
        "a repeat after a lost reply"
    );
    assert_eq!(slot.inspect(NOW).unwrap().0, b);
}

#[test]
fn tokens_grow_across_a_counter_loss_after_a_burst() {
    let mut slot = Slot::default();
    let mut last = FencingToken::new(0);
    for number in 0..120_000u64 {
        // one grant per microsecond: the maximum rate of the generator
        let now = NOW + Duration::from_micros(number);
        let a = lease(1, number);
        let t = token(&take(&mut slot, now, a));
        assert!(t > last);
        last = t;
        slot.release(now, a, 0);
    }
    let after = NOW + Duration::from_micros(120_000);
    let mut emptied = Slot::default();
    assert!(token(&take(&mut emptied, after, lease(1, 1))) > last, "FLUSHALL does not make tokens decrease");
}

#[test]
fn tokens_grow_when_a_promoted_replica_missed_the_last_write() {
    let mut master = Slot::default();
    take(&mut master, NOW, lease(1, 1));
    master.release(NOW, lease(1, 1), 0);
    let mut replica = master.clone();
    let later = NOW + Duration::from_millis(5);
    let lost_write = token(&take(&mut master, later, lease(1, 2)));
    let promoted = later + Duration::from_micros(1);
    assert!(token(&take(&mut replica, promoted, lease(2, 3))) > lost_write);
}

#[test]
fn range_stays_within_a_millisecond_of_the_clock() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    take(&mut slot, NOW, a);
    let later = NOW + Duration::from_secs(1);
    let mode = AcquireMode::New { reserve: 5_000, floor: None };
    let Acquired::Granted { first, last } = slot.acquire(later, a, LEASE, later, mode, DAY) else {
        panic!("a repeat is granted")
    };
    assert_eq!((first.get(), last.get()), (later.as_micros(), later.as_micros() + 1000));

    let stepped_back = later - Duration::from_secs(3600);
    let mode = AcquireMode::New { reserve: 5_000, floor: None };
    let Acquired::Granted { first: next, last: end } = slot.acquire(stepped_back, a, LEASE, later, mode, DAY)
    else {
        panic!("a repeat is granted")
    };
    assert_eq!((next, end), (last.next(), last.next()), "a clock that stepped back: the reserve is 0");
}

#[test]
fn floor_raises_the_tokens() {
    let mut slot = Slot::default();
    let floor = FencingToken::new(NOW.as_micros() + 5_000_000);
    let mode = AcquireMode::New { reserve: 0, floor: Some(floor) };
    let granted = slot.acquire(NOW, lease(1, 1), LEASE, NOW, mode, DAY);
    assert_eq!(token(&granted), floor.next());
}

#[test]
fn one_off_names_leave_nothing_behind() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    take(&mut slot, NOW, a);
    slot.release(NOW, a, 0);
    slot.expire(NOW + Duration::from_secs(86_400));
    assert!(!slot.is_empty(), "the counter is kept for its retention");
    slot.expire(NOW + Duration::from_secs(86_400) + Duration::from_millis(1));
    assert!(slot.is_empty());
}

#[test]
fn late_renewal_or_reentry_does_not_extend_a_lease() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    take(&mut slot, NOW, a);
    let later = NOW + Duration::from_secs(10);
    assert_eq!(slot.renew(later, a, LEASE, NOW), Renewed::Late);
    assert_eq!(slot.acquire(later, a, LEASE, NOW, AcquireMode::Reenter { depth: 2 }, DAY), Acquired::Late);
    assert_eq!(slot.inspect(later), Some((a, 1, Duration::from_secs(20))));
}

#[test]
fn grants_renew_the_expiry_of_the_counter() {
    let (mut slot, eighth) = (Slot::default(), Duration::from_secs(86_400 / 8));
    for number in 0..100 {
        let (now, a) = (NOW + eighth * number, lease(1, u64::from(number)));
        take(&mut slot, now, a);
        slot.release(now, a, 0);
    }
    let last = NOW + eighth * 99;
    slot.expire(last + Duration::from_secs(86_400));
    assert!(!slot.is_empty(), "the counter is kept for its retention after a renewal");
    slot.expire(last + Duration::from_secs(86_400) + Duration::from_millis(1));
    assert!(slot.is_empty());
}

/// Redisson creates such counters, and restarts a missing one at 1.
#[test]
fn counter_without_an_expiry_keeps_none() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    let acquire = |slot: &mut Slot, now, retention| {
        let mode = AcquireMode::New { reserve: 0, floor: None };
        slot.acquire(now, a, LEASE, now, mode, retention);
        slot.release(now, a, 0);
    };
    acquire(&mut slot, NOW, None);
    for days in 1..5 {
        acquire(&mut slot, NOW + Duration::from_secs(86_400) * days, DAY);
    }
    slot.expire(NOW + Duration::from_secs(100 * 365 * 86_400));
    assert!(!slot.is_empty());
}

/// A renewal of the expiry costs the store as much as a part of the grant, so only some grants renew it.
#[test]
fn first_grant_in_an_eighth_of_the_retention_renews_the_expiry() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    let (eighth, second) = (Duration::from_secs(86_400 / 8), Duration::from_secs(1));
    // The first moment of an eighth.
    let begin = UtcTime::from_micros(NOW.as_micros() / 10_800_000_000 * 10_800_000_000);
    let mut lasts = |at: UtcTime| {
        take(&mut slot, at, a);
        slot.release(at, a, 0);
        let expires = slot.counter.as_ref().unwrap().expires_ms.unwrap();
        Duration::from_millis(expires - at.as_millis())
    };
    assert_eq!(lasts(begin + second), DAY.unwrap());
    assert_eq!(lasts(begin + eighth - second), DAY.unwrap() - eighth + 2 * second);
    assert_eq!(lasts(begin + eighth + second), DAY.unwrap());
}

#[test]
fn without_a_retention_the_counter_is_kept() {
    let (mut slot, a) = (Slot::default(), lease(1, 1));
    let mode = AcquireMode::New { reserve: 0, floor: None };
    slot.acquire(NOW, a, LEASE, NOW, mode, None);
    slot.expire(NOW + Duration::from_secs(100 * 365 * 86_400));
    assert!(!slot.is_empty());
}
