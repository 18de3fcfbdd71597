//! Acquisition: order, cancellation, unknown outcomes, budgets.

use super::*;

#[test]
fn waiters_are_served_in_order_with_one_attempt_at_a_time() {
    let mut story = Story::begins();
    story.enters(A).enters(B).enters(C);
    let first = story.tries();
    story.says_nothing();
    let hold = story.granted(first);
    story.grants(A);
    story.says_nothing();

    story.tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.releases(0);
    story.says_nothing();
    story.released(first, 0, Released::Released { listeners: None });
    let second = story.tries();
    assert_ne!(second, first, "a released id is never acquired again");
    story.granted(second);
    story.grants(B);
}

#[test]
fn attempt_with_unknown_outcome_is_repeated_with_the_same_id() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.at(3.0).acquire_unknown(lease).says_nothing();
    let sent = story.machine.wake_at().unwrap();
    assert_eq!(story.at(3.1).tries(), lease);
    let hold = story.granted(lease);
    let grant = story.grants(A);
    let valid = Duration::from_millis(30_000 - 302);
    assert_eq!(grant.deadline, sent + valid, "counted from the attempt that was answered");

    // The first attempt may still be executed until its `not_after`, here second 3; the release is not late.
    story.at(4.0).tell(Event::Drop { hold });
    story.next();
    story.releases(0);
    story.released(lease, 0, Released::Released { listeners: None });
    story.says_nothing();
    story.ends_idle();
}

/// Two copies of a process that waits would otherwise both be granted the lock.
#[test]
fn busy_attempt_is_followed_by_one_with_another_id() {
    let mut story = Story::begins();
    story.enters(A);
    let first = story.tries();
    story.busy(first, Duration::from_secs(1)).says(Command::Watch);
    let second = story.at(2.0).tries();
    assert_ne!(second, first);

    story.at(3.0).acquire_unknown(second);
    assert_eq!(story.at(3.2).tries(), second);
    story.busy(second, Duration::from_secs(1));
    assert_eq!(story.at(4.5).tries(), second, "the unknown attempt may be executed until second 5");
    story.at(5.1).busy(second, Duration::from_secs(1));
    assert_ne!(story.at(6.5).tries(), second);
}

#[test]
fn copies_of_a_process_that_waits_try_under_different_ids() {
    let (mut original, _) = Story::with_a_waiting();
    let mut copy = original.copy();
    assert_ne!(original.at(20.5).tries(), copy.at(20.5).tries());

    // An attempt without a reply belongs to both.
    let mut original = Story::begins();
    original.enters(A);
    let lease = original.tries();
    let mut copy = original.copy();
    copy.at(3.0).acquire_unknown(lease);
    assert_eq!(copy.at(3.2).tries(), lease);
}

#[test]
fn attempt_without_random_numbers_is_refused() {
    let mut story = Story::begins();
    story.world.drained = true;
    story.enters(A);
    story.refuses(A, Refusal::NoRandom);
    story.ends_idle();
    story.enters(B);
    story.refuses(B, Refusal::NoRandom);
    story.world.drained = false;
    story.enters(A).tries();
}

#[test]
fn giving_up_after_an_unknown_outcome_releases_until_no_orphan_is_possible() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.at(1.0).acquire_unknown(lease).tell(Event::Leave { waiter: A });
    assert_eq!(story.releases(0), lease);
    // Executed at second 1, but the attempt is valid until second 3.
    story.released(lease, 0, Released::Gone { held_by_other: false }).says_nothing();
    assert!(!story.machine.is_drained());
    assert_eq!(story.at(3.1).releases(0), lease);
    story.released(lease, 0, Released::Released { listeners: None }).says_nothing();
    story.ends_idle();
}

#[test]
fn undo_without_a_reply_stops_once_the_lease_has_expired() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.at(3.0).acquire_unknown(lease).tell(Event::Leave { waiter: A });
    let mut sent = 0;
    while let Some(command) = story.said.pop_front() {
        let Command::Io { operation: Operation::Release(request), .. } = command else {
            panic!("{command:?}")
        };
        assert_eq!(request.depth_left, 0);
        sent += 1;
        let later = story.now.as_micros() as f64 / 1e6;
        story.release_unknown(lease, 0).at(later + 2.6);
    }
    assert!((8..60).contains(&sent), "{sent} releases in 33 s");
    story.ends_idle();
}

#[test]
fn grant_for_a_cancelled_waiter_is_released() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.tell(Event::Leave { waiter: A }).says_nothing();
    story.granted(lease);
    assert_eq!(story.releases(0), lease);
    story.released(lease, 0, Released::Released { listeners: None }).says_nothing();
    story.ends_idle();
}

#[test]
fn next_waiter_takes_over_the_attempt_of_a_cancelled_one() {
    let mut story = Story::begins();
    story.enters(A).enters(B);
    let lease = story.tries();
    story.tell(Event::Leave { waiter: A }).says_nothing();
    story.granted(lease);
    story.grants(B);
}

#[test]
fn grant_with_other_terms_is_requested_again_with_the_right_ones() {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.terms = fixed(Duration::from_secs(1))).enters(B);
    let lease = story.tries();
    story.tell(Event::Leave { waiter: A });
    story.at(0.1).granted(lease);
    let request = story.asks();
    assert_eq!((request.lease.number(), request.duration), (lease, terms().lease));
    story.says_nothing();
    // B leaves too: the lease that the first reply granted must be released even if the second reply is busy.
    story.tell(Event::Leave { waiter: B }).busy(lease, Duration::from_secs(1));
    assert_eq!(story.releases(0), lease);
}

#[test]
fn grant_after_its_deadline_is_released_and_requested_again() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.paused_until(29.8).granted(lease);
    assert_eq!(story.releases(0), lease);
    story.released(lease, 0, Released::Gone { held_by_other: false }).says_nothing();
    assert_ne!(story.at(29.9).tries(), lease, "after a pause: a slow store would otherwise be asked forever");
}

#[test]
fn grant_that_arrives_after_max_hold_is_released_with_back_off() {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.terms = bounded(Duration::from_millis(20)));
    let mut tries = 0;
    for ms in 0..10_000u32 {
        if ms > 0 {
            story.at(f64::from(ms) / 1000.0);
        }
        if let Some(Command::Io { operation: Operation::Acquire(request), .. }) = story.said.pop_front() {
            let lease = request.lease.number();
            tries += 1;
            story.paused_until(f64::from(ms) / 1000.0 + 0.025).granted(lease);
            assert_eq!(story.releases(0), lease);
            story.released(lease, 0, Released::Released { listeners: None });
        }
    }
    assert!((1..=60).contains(&tries), "{tries} tries in 10 s take the lock from others each time");
}

#[test]
fn late_acquire_is_retried_immediately_a_limited_number_of_times() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    for _ in 0..3 {
        story.acquired(lease, Acquired::Late);
        assert_eq!(story.tries(), lease);
    }
    story.acquired(lease, Acquired::Late).says_nothing();
    assert_eq!(
        story.at(0.1).tries(),
        lease,
        "a backend that is always late is asked as rarely as a failing one"
    );
}

/// The undo of one quorum round would delete the grant of the next.
#[test]
fn quorum_draws_an_id_for_each_attempt() {
    let mut story = Story::with(MachineConfig { lease_per_attempt: true, ..MachineConfig::default() });
    story.enters(A);
    let first = story.tries();
    story.busy(first, Duration::from_secs(9)).says(Command::Watch);
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let second = story.tries();
    assert_ne!(second, first, "after a busy answer");
    story.acquire_unknown(second);
    assert_eq!(story.releases(0), second, "an unknown outcome is undone at once");
    story.released(second, 0, Released::Gone { held_by_other: false });
    let third = story.at(1.0).tries();
    assert_ne!(third, second, "after an unknown outcome");
    story.acquired(third, Acquired::Late);
    assert_ne!(story.tries(), third, "after a late one");
}

#[test]
fn single_try_sends_one_attempt() {
    let once = |entry: &mut Entry| entry.wait_policy = WaitPolicy::NoWait;
    let mut story = Story::begins();
    story.enters_with(A, once);
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(9)).refuses(A, Refusal::Busy);
    story.says_nothing();
    story.ends_idle();

    story.enters_with(B, once);
    let lease = story.tries();
    story.acquire_unknown(lease).refuses(B, Refusal::Failed(Applied::Unknown));
    assert_eq!(story.releases(0), lease, "and its unknown outcome is undone");
}

#[test]
fn single_try_never_overtakes_a_waiter_and_sends_nothing() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.enters_with(B, |entry| entry.wait_policy = WaitPolicy::NoWait).refuses(B, Refusal::Busy);
    story.granted(lease);
    story.grants(A);
    story.enters_with(C, |entry| entry.wait_policy = WaitPolicy::NoWait).refuses(C, Refusal::Busy);
    story.says_nothing();
}

/// Another waiter's wait ends at the moment of the attempt. Its acquisition remains, and so does its pause.
#[test]
fn single_try_ignores_the_pause_of_a_wait_that_just_ended() {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.wait_policy = WaitPolicy::Deadline(at(1.0)));
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20));
    story.says(Command::Watch);
    story.jump(at(1.0));
    story.enters_with(B, |entry| entry.wait_policy = WaitPolicy::NoWait);
    story.refuses(A, Refusal::Timeout(Applied::No));
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(19)).refuses(B, Refusal::Busy);
}

#[test]
fn wait_ends_at_its_deadline_and_later_waiters_continue() {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.wait_policy = WaitPolicy::Deadline(at(1.0))).enters(B);
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20));
    story.says(Command::Watch);
    story.at(0.9).says_nothing();
    story.at(1.0).refuses(A, Refusal::Timeout(Applied::No));
    story.tell(Event::Woken);
    let lease = story.tries();
    story.granted(lease);
    story.grants(B);
}

#[test]
fn outage_budget_counts_from_the_first_failure_until_a_reply() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.at(3.0).acquire_unknown(lease);
    story.at(3.1).tries();
    story.busy(lease, Duration::from_secs(1000));
    story.says(Command::Watch);
    let lease = story.at(8.2).tries();
    story.at(11.2).acquire_unknown(lease);
    // Failing since second 8.05 (sent): the budget of one lease ends 30 s later.
    let mut refused_at = None;
    for tenth in 112..500 {
        story.at(f64::from(tenth) / 10.0);
        while let Some(said) = story.said.pop_front() {
            match said {
                Command::Io { operation: Operation::Acquire(request), .. } => {
                    story.acquire_unknown(request.lease.number());
                }
                Command::Refuse { waiter, refusal } => {
                    assert_eq!((waiter, refusal), (A, Refusal::Unanswered));
                    refused_at = Some(tenth);
                }
                _ => {}
            }
        }
    }
    let refused_at = refused_at.expect("the budget ends the wait");
    assert!((379..=383).contains(&refused_at), "refused at {refused_at}");
}

#[test]
fn impatient_callers_do_not_hammer_a_dead_backend() {
    let mut story = Story::begins();
    let mut tries = 0;
    for tenth in 0..100u32 {
        let waiter = WaiterId(100 + u64::from(tenth));
        story.at(f64::from(tenth) / 10.0).enters(waiter);
        while let Some(said) = story.said.pop_front() {
            match said {
                Command::Io { operation: Operation::Acquire(request), .. } => {
                    tries += 1;
                    story.tell(Event::Acquired {
                        lease: request.lease.number(),
                        outcome: Err(Failure { applied: Applied::No, retryable: true }),
                    });
                }
                Command::Io { .. } => panic!("nothing was applied, so there is nothing to undo"),
                _ => {}
            }
        }
        story.tell(Event::Leave { waiter });
    }
    assert!((5..15).contains(&tries), "{tries} tries in 10 s");
}

#[test]
fn permanent_error_refuses_every_waiter_immediately() {
    let mut story = Story::begins();
    story.enters(A).enters(B);
    let lease = story.tries();
    let refused = Failure { applied: Applied::No, retryable: false };
    story.tell(Event::Acquired { lease, outcome: Err(refused) });
    story.refuses(A, Refusal::Failed(Applied::No));
    story.refuses(B, Refusal::Failed(Applied::No));
    story.says_nothing();
    story.ends_idle();
}

#[test]
fn only_waiters_above_the_limit_are_refused() {
    let mut story = Story::with(MachineConfig { max_waiters: 2, ..MachineConfig::default() });
    story.enters(A).enters(B);
    story.tries();
    story.enters(C).refuses(C, Refusal::TooManyWaiters);
    story.tell(Event::Leave { waiter: B }).enters(C).says_nothing();
}

#[test]
fn late_reply_does_not_prove_that_no_other_delivery_was_executed() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.at(3.1).tell(Event::Leave { waiter: A });
    story.acquired(lease, Acquired::Late);
    assert_eq!(story.releases(0), lease);
    story.released(lease, 0, Released::Gone { held_by_other: false }).says_nothing();
    story.ends_idle();
}

#[test]
fn longer_lease_of_a_waiter_that_left_is_released() {
    let long = |entry: &mut Entry| entry.terms = fixed(Duration::from_secs(3_600));
    let mut story = Story::begins();
    story.enters_with(A, long).enters(B);
    let lease = story.tries();
    story.tell(Event::Leave { waiter: A });
    story.at(0.1).granted(lease);
    assert_eq!(story.releases(0), lease, "an expiry never moves earlier");
    story.says_nothing();
    story.released(lease, 0, Released::Released { listeners: None });
    assert_ne!(story.tries(), lease);

    // Even if the outcome of the grant is unknown.
    let mut story = Story::begins();
    story.enters_with(A, long).enters(B);
    let lease = story.tries();
    story.tell(Event::Leave { waiter: A }).acquire_unknown(lease);
    assert_eq!(story.at(0.1).releases(0), lease);
}

#[test]
fn single_try_does_not_use_the_reply_to_another_request() {
    for busy in [true, false] {
        let mut story = Story::begins();
        story.enters(A);
        let lease = story.tries();
        story.tell(Event::Leave { waiter: A });
        story.enters_with(B, |entry| entry.wait_policy = WaitPolicy::NoWait).says_nothing();
        match busy {
            true => story.busy(lease, Duration::from_secs(9)),
            false => story.acquire_unknown(lease),
        };
        // Its own attempt, immediately.
        let lease = story.tries();
        story.said.clear();
        story.busy(lease, Duration::from_secs(9)).refuses(B, Refusal::Busy);
    }
}

#[test]
fn unknown_remaining_time_is_polled_with_back_off() {
    let mut story = Story::begins();
    story.enters(A);
    let mut lease = story.tries();
    let mut tries = 0;
    for tenth in 0..300 {
        story.at(f64::from(tenth) / 10.0);
        story.acquired(lease, Acquired::Busy { remaining: None });
        for said in story.said.drain(..) {
            if let Command::Io { operation: Operation::Acquire(request), .. } = said {
                (lease, tries) = (request.lease.number(), tries + 1);
            }
        }
    }
    assert!((6..=9).contains(&tries), "{tries} in 30 s: 50 ms, 500 ms, every 5 s");
}

/// A store may report this for a key that never expires.
#[test]
fn lease_without_expiry_is_polled_at_the_poll_interval() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.busy(lease, Duration::MAX);
    story.says(Command::Watch);
    story.at(40.0).tries();
}

#[test]
fn contended_attempt_uses_up_its_id() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    let retry_after = Duration::from_millis(200);
    story.acquired(lease, Acquired::Contended { retry_after }).says_nothing();
    story.at(0.19).says_nothing();
    assert_ne!(story.at(0.2).tries(), lease);
}

/// One node has a lease that is not released, and another does not vote: no round can win before one of them changes.
#[test]
fn rounds_without_a_winner_back_off() {
    let mut story = Story::begins();
    story.enters(A);
    let mut rounds = 0;
    while story.now < at(10.0) {
        let lease = story.tries();
        let retry_after = Duration::from_millis(5);
        story.acquired(lease, Acquired::Contended { retry_after }).says_nothing();
        rounds += 1;
        let next = story.machine.wake_at().unwrap();
        story.jump(next);
        story.tell(Event::Tick);
    }
    assert!((10..50).contains(&rounds), "{rounds} rounds in 10 s");
}
