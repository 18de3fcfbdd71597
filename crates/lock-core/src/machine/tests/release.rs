//! Results of releases, for every possible reply.

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

/// Acquires the lock for the front waiter and releases it, as a process with many local waiters does.
fn turn(story: &mut Story, listeners: Option<u32>) {
    let lease = story.tries();
    let hold = story.granted(lease);
    story.next();
    story.tell(Event::Drop { hold });
    story.next();
    story.releases(0);
    story.released(lease, 0, Released::Released { listeners });
}

#[test]
fn busy_process_yields_until_listeners_have_had_a_turn() {
    let mut story = Story::begins();
    for waiter in 1..=60 {
        story.enters(WaiterId(waiter));
    }
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20));
    story.says(Command::Watch);
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    for _ in 0..16 {
        turn(&mut story, Some(2));
    }
    story.says_nothing();
    // Its own release wakes it, too; that is no reason to go first.
    story.tell(Event::Woken).says_nothing();
    story.at(0.009).says_nothing();
    story.at(0.013);
    for _ in 0..16 {
        turn(&mut story, Some(2));
    }
    story.says_nothing();
    story.tell(Event::Woken).says_nothing();
    story.at(0.015).tell(Event::Woken);
    story.tries();
}

#[test]
fn process_yields_unconditionally_only_if_listeners_are_unknown() {
    for listeners in [None, Some(0)] {
        let mut story = Story::begins();
        for waiter in 1..=1_100 {
            story.enters(WaiterId(waiter));
        }
        for _ in 0..1_024 {
            turn(&mut story, listeners);
        }
        if listeners.is_none() {
            story.says_nothing();
        }
        story.at(0.013).tries();
    }
}
