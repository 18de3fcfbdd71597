//! Releases: their results, for every possible reply; the minimum hold, for which the store keeps the lease even after
//! the guards are released; and shutdown, after which nothing new begins.

use super::*;

fn release_by_hand() -> (Story, LeaseNumber, HoldId) {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.at(1.0).tell(Event::Release { hold, ticket: Ticket(1) });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    assert_eq!(story.releases(0), lease);
    (story, lease, hold)
}

#[track_caller]
fn answered(story: &mut Story, answer: ReleaseAnswer) {
    story.says(Command::ReleaseAnswered { ticket: Some(Ticket(1)), answer });
}

#[test]
fn release_reports_what_it_found() {
    let (mut story, lease, _) = release_by_hand();
    story.released(lease, 0, Released::Released { listeners: Some(2) });
    answered(&mut story, Ok(ReleaseOutcome::Released));

    let (mut story, lease, _) = release_by_hand();
    story.released(lease, 0, Released::Gone { held_by_other: false });
    answered(&mut story, Ok(ReleaseOutcome::AlreadyExpired));

    let (mut story, lease, _) = release_by_hand();
    story.released(lease, 0, Released::Gone { held_by_other: true });
    answered(&mut story, Ok(ReleaseOutcome::HeldByOther));
    story.ends_idle();
}

#[test]
fn repeated_release_that_finds_nothing_does_not_claim_the_lock_was_held() {
    for held_by_other in [false, true] {
        let (mut story, lease, _) = release_by_hand();
        story.at(4.0).release_unknown(lease, 0).says_nothing();
        assert_eq!(story.at(4.1).releases(0), lease);
        // Freed by the first release, or lost before it: unknown.
        story.released(lease, 0, Released::Gone { held_by_other });
        answered(&mut story, Err(Unconfirmed));
        story.ends_idle();
    }
}

#[test]
fn inner_guard_released_in_time_is_not_reported_lost_later() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.acquired(lease, Acquired::Reentered);
    story.said.clear();
    story.at(1.0).tell(Event::Release { hold, ticket: Ticket(1) });
    assert_eq!(story.releases(1), lease);
    story.at(1.1).tell(Event::Shutdown);
    story.loses(hold, LostReason::ShutDown);
    answered(&mut story, Ok(ReleaseOutcome::StillHeld { depth: 1 }));
}

#[test]
fn release_without_a_reply_is_unconfirmed_after_two_operation_timeouts_and_repeated() {
    let (mut story, lease, _) = release_by_hand();
    story.at(4.0).release_unknown(lease, 0);
    story.at(4.1).releases(0);
    story.at(6.9).says_nothing();
    story.at(7.0);
    answered(&mut story, Err(Unconfirmed));
    story.at(7.1).release_unknown(lease, 0);
    assert_eq!(story.at(7.3).releases(0), lease);
    story.released(lease, 0, Released::Released { listeners: None }).says_nothing();
    story.ends_idle();
}

#[test]
fn next_waiter_tries_after_the_release_completes_or_fails() {
    let (mut story, lease, _) = release_by_hand();
    story.enters(B).says_nothing();
    story.at(4.0).release_unknown(lease, 0);
    let next = story.tries();
    assert_ne!(next, lease);
}

#[test]
fn release_wakes_waiters_of_other_processes_but_a_lower_depth_does_not() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.acquired(lease, Acquired::Reentered);
    story.said.clear();
    story.tell(Event::Drop { hold });
    let release = story.asks_to_release();
    assert_eq!((release.depth_left, release.notify), (1, NotifyWaiters::No));
    story.released(lease, 1, Released::Kept).tell(Event::Drop { hold });
    story.next();
    let release = story.asks_to_release();
    assert_eq!((release.depth_left, release.notify), (0, NotifyWaiters::EvenIfGone));
}

#[test]
fn release_of_a_lease_in_doubt_wakes_only_if_it_frees_the_lock() {
    let notifies = |story: &mut Story| story.asks_to_release().notify;
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.acquire_unknown(lease).tell(Event::Leave { waiter: A });
    assert_eq!(notifies(&mut story), NotifyWaiters::Yes, "the lease may never have been granted");

    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.acquire_unknown(lease);
    story.at(0.06).tries();
    let hold = story.granted(lease);
    story.grants(A);
    story.at(0.5).tell(Event::Release { hold, ticket: Ticket(1) });
    story.next();
    assert_eq!(notifies(&mut story), NotifyWaiters::Yes, "the first attempt may still be executed");
}

#[test]
fn repeat_of_a_refused_release_wakes_only_if_it_frees_the_lock() {
    let notifies = |story: &mut Story| story.asks_to_release().notify;
    let (mut story, lease, _) = release_by_hand();
    let refused = Failure { applied: Applied::No, retryable: true };
    story.at(4.0).tell(Event::Released { lease, depth_left: 0, outcome: Err(refused) });
    story.at(4.1);
    assert_eq!(notifies(&mut story), NotifyWaiters::Yes, "the lock is still taken");
    story.release_unknown(lease, 0);
    story.at(4.5);
    assert_eq!(notifies(&mut story), NotifyWaiters::EvenIfGone, "it may be free, with its waiters asleep");
}

#[test]
fn release_is_repeated_until_an_earlier_attempt_can_no_longer_arrive() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    // The connection breaks immediately; the attempt may be executed until second 3.
    story.acquire_unknown(lease);
    story.at(0.06).tries();
    let hold = story.granted(lease);
    story.grants(A);
    story.at(0.5).tell(Event::Release { hold, ticket: Ticket(1) });
    story.next();
    story.releases(0);
    story.released(lease, 0, Released::Released { listeners: None });
    answered(&mut story, Ok(ReleaseOutcome::Released));
    assert_eq!(story.at(3.1).releases(0), lease, "a late first attempt would leave an orphan");
    story.released(lease, 0, Released::Released { listeners: None });
    story.ends_idle();
}

#[test]
fn release_behind_a_hanging_reentry_completes_in_time() {
    let (mut story, _, hold) = Story::with_a_holding();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.at(1.0).tell(Event::Leave { waiter: B }).tell(Event::Release { hold, ticket: Ticket(1) });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.at(6.9).says_nothing();
    story.at(7.0);
    answered(&mut story, Err(Unconfirmed));
}

/// Lease 30 s, of which the lock stays taken for at least 10 s.
fn kept() -> Terms {
    crate::options::LockOptions::new().min_hold(Duration::from_secs(10)).terms().unwrap()
}

/// Starts a story in which `A` has held the lock since second 0, with a minimum hold.
fn with_a_kept_hold() -> (Story, LeaseNumber, HoldId) {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.terms = kept());
    let lease = story.tries();
    let hold = story.granted(lease);
    story.grants(A);
    (story, lease, hold)
}

#[test]
fn early_release_ends_the_hold_now_and_frees_the_lock_later() {
    let (mut story, lease, hold) = with_a_kept_hold();
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
    let (mut story, lease, hold) = with_a_kept_hold();
    story.at(2.0).tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    let answer = Ok(ReleaseOutcome::StillHeld { depth: 0 });
    assert_eq!(story.reports, [Command::ReleaseAnswered { ticket: None, answer }]);
    story.at(9.999).says_nothing();
    assert_eq!(story.at(10.0).releases(0), lease);
}

#[test]
fn release_after_the_minimum_frees_the_lock_immediately() {
    let (mut story, lease, hold) = with_a_kept_hold();
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Renewed);
    story.next();
    story.at(11.0).tell(Event::Release { hold, ticket: Ticket(1) });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    assert_eq!(story.releases(0), lease);
}

#[test]
fn next_local_waiter_waits_for_the_minimum_and_a_try_is_refused() {
    let (mut story, lease, hold) = with_a_kept_hold();
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
        let (mut story, _, hold) = with_a_kept_hold();
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
    let (mut story, lease, hold) = with_a_kept_hold();
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Renewed);
    story.next();
    story.at(11.0).tell(Event::Shutdown);
    story.loses(hold, LostReason::ShutDown);
    assert_eq!(story.releases(0), lease, "after the minimum hold, it is released as usual");
}

#[test]
fn unclaimed_hold_is_released_immediately() {
    let (mut story, lease, hold) = with_a_kept_hold();
    story.world.unclaimed.push(at(0.0));
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Renewed);
    story.next();
    story.at(15.0).loses(hold, LostReason::Unclaimed);
    assert_eq!(story.releases(0), lease);
}

/// A re-entry failed just before the last release. No request is sent until the minimum is over, so the store may have
/// recovered long before.
#[test]
fn minimum_of_an_ended_hold_is_no_outage() {
    for answered_first in [true, false] {
        let (mut story, lease, hold) = with_a_kept_hold();
        story.at(1.0).enters_as(B, A);
        story.tries_to_keep(2);
        if answered_first {
            story.acquire_unknown(lease).tell(Event::Leave { waiter: B }).tell(Event::Drop { hold });
        } else {
            story.tell(Event::Leave { waiter: B }).tell(Event::Drop { hold }).acquire_unknown(lease);
        }
        story.says(Command::Ended { hold, how: HoldEnd::Released });
        let hasty = crate::options::LockOptions::new().outage_budget(Duration::from_secs(3)).terms().unwrap();
        story.enters_with(C, |entry| entry.terms = hasty);
        assert_eq!(story.at(10.0).releases(0), lease);
        story.released(lease, 0, Released::Released { listeners: None });
        story.tries();
    }
}

#[test]
fn try_is_refused_while_an_ended_hold_waits_for_a_reply() {
    let (mut story, lease, hold) = with_a_kept_hold();
    story.enters_as(B, A);
    story.tries_to_keep(2);
    story.tell(Event::Leave { waiter: B }).tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.enters_with(C, |entry| entry.wait_policy = WaitPolicy::NoWait);
    story.refuses(C, Refusal::Busy);
    story.acquired(lease, Acquired::Reentered).says_nothing();
    assert_eq!(story.at(10.0).releases(0), lease);
}

#[test]
fn shutdown_refuses_waiters_and_releases_the_hold() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters(B).tell(Event::Shutdown);
    story.refuses(B, Refusal::ShutDown);
    story.loses(hold, LostReason::ShutDown);
    assert_eq!(story.releases(0), lease);
    story.enters(C).refuses(C, Refusal::ShutDown);
    story.released(lease, 0, Released::Released { listeners: None });
    story.ends_idle();
    assert!(!story.machine.is_removable(), "the guard still exists");
    story.tell(Event::Drop { hold });
    assert!(story.machine.is_removable());
}

#[test]
fn shutdown_during_an_attempt_releases_the_grant() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.tell(Event::Shutdown).refuses(A, Refusal::ShutDown);
    story.says_nothing();
    story.granted(lease);
    assert_eq!(story.releases(0), lease);
}

#[test]
fn shutdown_unsubscribes_immediately() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20));
    story.tell(Event::Shutdown).refuses(A, Refusal::ShutDown);
    story.says(Command::Unwatch);
    story.tell(Event::Unwatched(WatchAnswer::Acknowledged));
    assert!(story.machine.is_removable());
}
