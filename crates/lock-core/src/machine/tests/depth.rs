//! Re-entry: depths are absolute, operations do not overlap, and no waiter is granted a lock that is gone.

use super::*;

#[test]
fn owner_releases_as_often_as_it_reenters() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters_as(B, A);
    assert_eq!(story.tries_to_keep(2), lease);
    story.acquired(lease, Acquired::Reentered);
    assert!(matches!(story.next(), Command::Extended { .. }));
    let grant = story.grants(B);
    assert_eq!(
        (grant.hold, grant.depth, grant.by),
        (hold, 2, GrantSource::Reentry),
        "re-entry keeps the hold"
    );

    story.tell(Event::Release { hold, ticket: Ticket(1) });
    assert_eq!(story.releases(1), lease);
    story.released(lease, 1, Released::Kept);
    story.says(Command::ReleaseAnswered {
        ticket: Some(Ticket(1)),
        answer: Ok(ReleaseOutcome::StillHeld { depth: 1 }),
    });
    story.tell(Event::Release { hold, ticket: Ticket(2) });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.releases(0);
    story.released(lease, 0, Released::Released { listeners: Some(0) });
    story.says(Command::ReleaseAnswered { ticket: Some(Ticket(2)), answer: Ok(ReleaseOutcome::Released) });
    story.ends_idle();
}

#[test]
fn release_that_races_with_a_reentry_does_not_free_the_lock() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.tell(Event::Drop { hold }).says_nothing();
    story.acquired(lease, Acquired::Reentered);
    story.next();
    assert_eq!(story.grants(B).depth, 1);
    assert_eq!(story.releases(1), lease, "the store is brought up to date with one operation");
    story.released(lease, 1, Released::Kept).says_nothing();
    assert_eq!(story.machine.holder().map(|(_, _, guards, _)| guards), Some(1));
}

#[test]
fn reentry_cancelled_in_flight_leaves_the_depth_unchanged() {
    let (mut story, lease, _) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.tell(Event::Leave { waiter: B }).says_nothing();
    story.acquired(lease, Acquired::Reentered);
    story.next();
    assert_eq!(story.releases(1), lease);
}

#[test]
fn cancelled_reentry_and_last_release_free_the_lock_after_the_reply() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.tell(Event::Leave { waiter: B }).tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.says_nothing();
    story.acquired(lease, Acquired::Reentered);
    assert_eq!(story.releases(0), lease, "and a hold that has ended is not extended");
}

#[test]
fn reentries_during_an_operation_share_the_next_one() {
    let (mut story, lease, _) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.enters_as(C, A).enters_as(WaiterId(4), A).says_nothing();
    story.acquired(lease, Acquired::Reentered);
    story.next();
    story.grants(B);
    story.tries_to_keep(4);
    story.acquired(lease, Acquired::Reentered);
    story.next();
    story.grants(C);
    assert_eq!(story.grants(WaiterId(4)).depth, 4);
}

#[test]
fn other_waiters_of_an_owner_reenter_instead_of_waiting_for_it() {
    let mut story = Story::begins();
    story.enters_as(A, A).enters(B).enters_as(C, A);
    let lease = story.tries();
    story.granted(lease);
    story.grants(A);
    story.tries_to_keep(2);
    story.acquired(lease, Acquired::Reentered);
    story.next();
    story.grants(C);
    story.says_nothing();
}

#[test]
fn reentry_that_finds_the_lease_gone_is_refused_and_the_hold_lost() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.acquired(lease, Acquired::Gone).loses(hold, LostReason::Gone);
    story.refuses(B, Refusal::Lost);
    story.says_nothing();
}

#[test]
fn owner_that_still_has_a_lost_hold_is_refused() {
    let (mut story, lease, hold) = Story::with_a_holding();
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Gone).loses(hold, LostReason::Gone);
    story.enters_as(B, A).refuses(B, Refusal::Lost);
    story.enters_with(B, |entry| entry.join = Some(Join::Reenter(hold))).refuses(B, Refusal::Lost);
    story.tell(Event::Drop { hold });
    story.enters_as(B, A).tries();
}

#[test]
fn inner_lease_extends_the_hold_and_never_shortens_it() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.at(1.0).enters_with(B, |entry| {
        entry.owner = OwnerId(A.0);
        entry.terms = fixed(Duration::from_secs(1));
    });
    assert_eq!(story.asks().duration, Duration::from_secs(30));
    story.acquired(lease, Acquired::Reentered);
    story.says(Command::Extended { hold, deadline: at(1.0 + 30.0 - 0.302) });
    story.grants(B);

    story.at(2.0).enters_with(C, |entry| {
        entry.owner = OwnerId(A.0);
        entry.terms = fixed(Duration::from_secs(100));
    });
    story.tries_to_keep(3);
    story.acquired(lease, Acquired::Reentered);
    story.says(Command::Extended { hold, deadline: at(2.0 + 100.0 - 1.002) });
}

#[test]
fn lost_reply_to_a_depth_operation_is_repaired_by_an_absolute_depth() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.at(3.0).acquire_unknown(lease).says_nothing();
    assert_eq!(story.at(3.1).tries_to_keep(2), lease);
    story.acquired(lease, Acquired::Reentered);
    story.next();
    story.grants(B);
    story.tell(Event::Release { hold, ticket: Ticket(7) });
    story.releases(1);
    story.at(6.1).release_unknown(lease, 1);
    story.says(Command::ReleaseAnswered {
        ticket: Some(Ticket(7)),
        answer: Ok(ReleaseOutcome::StillHeld { depth: 1 }),
    });
    assert_eq!(story.at(6.2).releases(1), lease);
}

#[test]
fn guard_of_an_ended_hold_cannot_reenter_the_next_one() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.tell(Event::Drop { hold });
    story.next();
    story.releases(0);
    story.released(lease, 0, Released::Released { listeners: None });
    story.enters(B);
    let next = story.tries();
    story.granted(next);
    story.grants(B);
    story.enters_with(C, |entry| entry.join = Some(Join::Reenter(hold))).refuses(C, Refusal::Lost);
}

#[test]
fn late_reentry_is_retried_immediately_a_limited_number_of_times() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters_with(B, |entry| (entry.owner, entry.wait_policy) = (OwnerId(A.0), WaitPolicy::NoWait));
    for _ in 0..3 {
        assert_eq!(story.tries_to_keep(2), lease);
        story.acquired(lease, Acquired::Late);
    }
    story.tries_to_keep(2);
    story.acquired(lease, Acquired::Late).refuses(B, Refusal::Failed(Applied::No));
    assert!(story.machine.holder().is_some_and(|(_, held, ..)| held == hold));
}

#[test]
fn reentry_extends_a_fixed_lease_only_on_request() {
    let seconds = |n| {
        move |entry: &mut Entry| {
            (entry.owner, entry.terms) = (OwnerId(A.0), fixed(Duration::from_secs(n)));
        }
    };
    let mut story = Story::begins();
    story.enters_with(A, seconds(5));
    let lease = story.tries();
    let hold = story.granted(lease);
    let deadline = story.grants(A).deadline;
    story.at(4.0).enters_with(B, seconds(5));
    story.tries_to_keep(2);
    story.acquired(lease, Acquired::Reentered);
    story.says(Command::Extended { hold, deadline });
    story.grants(B);
    story.enters_with(C, seconds(100));
    story.tries_to_keep(3);
    story.acquired(lease, Acquired::Reentered);
    story.says(Command::Extended { hold, deadline: at(4.0 + 100.0 - 1.002) });
}

#[test]
fn extension_counts_from_now_even_if_no_longer_than_the_lease() {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.terms = fixed(Duration::from_secs(5)));
    let lease = story.tries();
    let hold = story.granted(lease);
    story.grants(A);
    story.at(4.0).enters_with(B, |entry| {
        (entry.owner, entry.terms) = (OwnerId(A.0), fixed(Duration::from_secs(3)));
        entry.join = Some(Join::Extend(hold));
    });
    assert_eq!(story.asks().duration, Duration::from_secs(3));
    story.acquired(lease, Acquired::Reentered);
    // The margin is still that of the longer lease.
    story.says(Command::Extended { hold, deadline: at(4.0 + 3.0 - 0.052) });
    story.grants(B);
}
