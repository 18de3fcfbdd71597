//! The minimum hold: the store keeps the lease even after the guards are released.

use super::*;

/// Lease 30 s, of which the lock stays taken for at least 10 s.
fn kept() -> Terms {
    crate::options::LockOptions::new().min_hold(Duration::from_secs(10)).terms().unwrap()
}

/// Starts a story in which `A` has held the lock since second 0, with a minimum hold.
fn with_a_holding() -> (Story, LeaseNumber, HoldId) {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.terms = kept());
    let lease = story.tries();
    let hold = story.granted(lease);
    story.grants(A);
    (story, lease, hold)
}

#[test]
fn early_release_ends_the_hold_now_and_frees_the_lock_later() {
    let (mut story, lease, hold) = with_a_holding();
    story.at(2.0).tell(Event::Release { hold, ticket: Ticket(1) });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    let answer = Ok(ReleaseOutcome::StillHeld { depth: 0 });
    story.says(Command::ReleaseAnswered { ticket: Some(Ticket(1)), answer });
    story.at(9.999).says_nothing();
    assert!(!story.machine.is_drained() && story.machine.holder().is_none());
    assert_eq!(story.at(10.0).releases(0), lease);
    story.released(lease, 0, Released::Released { listeners: None });
    story.ends_idle();
}

#[test]
fn dropped_guard_keeps_the_minimum_hold() {
    let (mut story, lease, hold) = with_a_holding();
    story.at(2.0).tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    let answer = Ok(ReleaseOutcome::StillHeld { depth: 0 });
    assert_eq!(story.reports, [Command::ReleaseAnswered { ticket: None, answer }]);
    story.at(9.999).says_nothing();
    assert_eq!(story.at(10.0).releases(0), lease);
}

#[test]
fn release_after_the_minimum_frees_the_lock_immediately() {
    let (mut story, lease, hold) = with_a_holding();
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Renewed);
    story.next();
    story.at(11.0).tell(Event::Release { hold, ticket: Ticket(1) });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    assert_eq!(story.releases(0), lease);
}

#[test]
fn next_local_waiter_waits_for_the_minimum_and_a_try_is_refused() {
    let (mut story, lease, hold) = with_a_holding();
    story.enters_with(B, |entry| entry.terms = kept());
    story.at(2.0).tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.at(3.0).tell(Event::Leave { waiter: B });
    story.enters_with(C, |entry| entry.wait_policy = WaitPolicy::NoWait);
    story.refuses(C, Refusal::Busy);
    story.enters(B);
    story.at(9.999).says_nothing();
    assert_eq!(story.at(10.0).releases(0), lease);
    story.released(lease, 0, Released::Released { listeners: None });
    assert_ne!(story.tries(), lease);
}

#[test]
fn lost_hold_keeps_its_minimum() {
    let mut story = Story::begins();
    let terms: Terms =
        crate::options::TermValues { max_hold: Some(Duration::from_secs(5)), ..*kept() }.into();
    story.enters_with(A, |entry| entry.terms = terms);
    let lease = story.tries();
    let hold = story.granted(lease);
    story.grants(A);
    story.at(5.0).loses(hold, LostReason::MaxHold);
    story.at(9.999).says_nothing();
    assert_eq!(story.at(10.0).releases(0), lease);
}

#[test]
fn shutdown_lets_the_lease_expire() {
    // While it is held, and while it is only kept.
    for released in [false, true] {
        let (mut story, _, hold) = with_a_holding();
        story.at(2.0);
        if released {
            story.tell(Event::Drop { hold });
            story.says(Command::Ended { hold, how: HoldEnd::Released });
        }
        story.tell(Event::Shutdown);
        if !released {
            story.loses(hold, LostReason::ShutDown);
        }
        story.says_nothing();
        story.ends_idle();
    }
    let (mut story, lease, hold) = with_a_holding();
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Renewed);
    story.next();
    story.at(11.0).tell(Event::Shutdown);
    story.loses(hold, LostReason::ShutDown);
    assert_eq!(story.releases(0), lease, "after the minimum hold, it is released as usual");
}

#[test]
fn unclaimed_hold_is_released_immediately() {
    let (mut story, lease, hold) = with_a_holding();
    story.world.unclaimed.push(at(0.0));
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Renewed);
    story.next();
    story.at(15.0).loses(hold, LostReason::Unclaimed);
    assert_eq!(story.releases(0), lease);
}

#[test]
fn try_is_refused_while_an_ended_hold_waits_for_a_reply() {
    let (mut story, lease, hold) = with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.tell(Event::Leave { waiter: B }).tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.enters_with(C, |entry| entry.wait_policy = WaitPolicy::NoWait);
    story.refuses(C, Refusal::Busy);
    story.acquired(lease, Acquired::Reentered).says_nothing();
    assert_eq!(story.at(10.0).releases(0), lease);
}
