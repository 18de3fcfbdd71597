//! The life of a hold: renewal, suspicion, loss.

use super::*;

#[test]
fn hold_is_renewed_and_lost_at_the_deadline_counted_from_sending() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.at(9.99).says_nothing();
    let (renewed_lease, sent) = story.at(10.0).renews();
    assert_eq!((renewed_lease, sent), (lease, at(10.0)));

    // The reply takes two seconds; the deadline still counts from second 10.
    story.at(12.0).renewed(lease, sent, Renewed::Renewed);
    story.says(Command::Extended { hold, deadline: at(40.0 - 0.302) });

    // From now on, the store does not reply: the driver reports each renewal as unknown after 3 s.
    let (_, sent) = story.at(20.0).renews();
    assert!(!story.machine.is_suspect());
    story.at(23.0).renew_unknown(lease, sent);
    assert!(matches!(story.next(), Command::Notice(Notice::RenewalFailed { .. })));
    assert!(story.machine.is_suspect(), "unknown is not lost");

    let mut retries = 0;
    while story.now < at(36.0) {
        let next = story.machine.wake_at().unwrap();
        assert!(next.since(story.now) <= Duration::from_millis(2500), "it retries quickly");
        story.jump(next);
        story.tell(Event::Tick);
        let (_, sent) = story.renews();
        retries += 1;
        story.tell(Event::Renewed { lease, sent, outcome: Err(Failure::UNKNOWN) });
        assert!(matches!(story.next(), Command::Notice(Notice::RenewalFailed { .. })));
    }
    assert!(retries >= 8, "{retries} retries in 13 s");

    story.said.clear();
    story.at(39.697);
    assert!(story.machine.holder().is_some(), "held until the deadline");
    story.said.clear();
    story.at(39.698);
    story.loses(hold, LostReason::Expired);
    assert_eq!(story.releases(0), lease, "a renewal may have been executed although its reply was lost");
    story.says_nothing();
}

#[test]
fn hold_on_a_backend_that_hangs_forever_is_lost_once() {
    let (mut story, _, hold) = Story::with_a_holding();
    story.at(10.0).renews();
    story.at(29.697).says_nothing();
    story.at(29.698).loses(hold, LostReason::Expired);
    story.releases(0);
    story.at(500.0).says_nothing();
    story.tell(Event::Drop { hold });
    story.says_nothing();
    assert!(story.machine.is_removable());
}

#[test]
fn gone_is_lost_immediately_and_needs_no_release() {
    let (mut story, lease, hold) = Story::with_a_holding();
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Gone).loses(hold, LostReason::Gone);
    story.says_nothing();
}

#[test]
fn renewal_never_revives_a_lost_hold() {
    let (mut story, lease, hold) = Story::with_a_holding();
    let (_, sent) = story.at(29.0).renews();
    story.paused_until(31.0).renewed(lease, sent, Renewed::Renewed).loses(hold, LostReason::Expired);
    story.releases(0);
    story.says_nothing();
    assert!(story.machine.holder().is_none());
}

#[test]
fn passed_deadline_wins_over_an_extension_in_flight() {
    let (mut story, lease, hold) = Story::with_a_holding();
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Renewed);
    story.says(Command::Extended { hold, deadline: at(39.698) });
    story.tell(Event::Expired { hold }).loses(hold, LostReason::Expired);
}

#[test]
fn pause_past_the_lease_is_detected_first() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.paused_until(31.0).tell(Event::Release { hold, ticket: Ticket(1) });
    story.loses(hold, LostReason::Expired);
    assert_eq!(story.releases(0), lease);
    story.says(Command::ReleaseAnswered {
        ticket: Some(Ticket(1)),
        answer: Ok(ReleaseOutcome::AlreadyExpired),
    });
    story.says_nothing();
}

#[test]
fn suspicion_renews_immediately_and_loses_nothing() {
    let (mut story, lease, hold) = Story::with_a_holding();
    let (_, sent) = story.at(1.0).tell(Event::Suspicion).renews();
    assert!(story.machine.is_suspect());
    story.renewed(lease, sent, Renewed::Renewed);
    story.says(Command::Extended { hold, deadline: at(31.0 - 0.302) });
    assert!(!story.machine.is_suspect() && story.machine.holder().is_some());
    let (_, sent) = story.at(11.0).renews();
    assert_eq!(sent, at(11.0), "a third of the lease after the latest success");
}

#[test]
fn fixed_lease_is_never_renewed_and_ends_on_time() {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.terms = fixed(Duration::from_secs(2)));
    let lease = story.tries();
    let hold = story.granted(lease);
    let grant = story.grants(A);
    assert_eq!(grant.deadline, at(2.0 - 0.022));
    story.tell(Event::Suspicion).says_nothing();
    story.at(1.977).says_nothing();
    story.at(1.978).loses(hold, LostReason::Expired);
}

#[test]
fn max_hold_ends_a_renewed_hold() {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.terms = bounded(Duration::from_secs(15)));
    let lease = story.tries();
    let hold = story.granted(lease);
    story.grants(A);
    let (_, sent) = story.at(10.0).renews();
    story.renewed(lease, sent, Renewed::Renewed);
    story.next();
    story.at(15.0).loses(hold, LostReason::MaxHold);
    assert_eq!(story.releases(0), lease, "others need not wait for the lease");
}

#[test]
fn self_deadlock_is_reported_once() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.at(1.0).enters(B);
    let mut notices = Vec::new();
    for second in 1..=100 {
        story.at(f64::from(second));
        while let Some(said) = story.said.pop_front() {
            match said {
                Command::Io { operation: Operation::Renew(_), .. } => {
                    story.renewed(lease, story.now, Renewed::Renewed);
                }
                Command::Notice(notice) => notices.push((second, notice)),
                _ => {}
            }
        }
    }
    let waited = Duration::from_secs(30);
    assert_eq!(notices, [(31, Notice::SelfDeadlock { token: hold.token, waited })]);
}

#[test]
fn pause_past_both_limits_reports_the_earlier_one() {
    for (most, reason) in [(20, LostReason::MaxHold), (40, LostReason::Expired)] {
        let mut story = Story::begins();
        story.enters_with(A, |entry| entry.terms = bounded(Duration::from_secs(most)));
        let lease = story.tries();
        let hold = story.granted(lease);
        story.grants(A);
        story.paused_until(50.0).tell(Event::Tick).loses(hold, reason);
    }
}

#[test]
fn renewal_joins_others_early_only_in_the_last_quarter_of_its_interval() {
    let (mut story, lease, _) = Story::with_a_holding();
    assert_eq!(story.machine.renewable_from(), Some(at(7.5)));
    story.at(7.49).tell(Event::RenewEarly).says_nothing();
    story.at(7.5).tell(Event::RenewEarly);
    assert_eq!(story.renews(), (lease, at(7.5)));
    assert_eq!(story.machine.renewable_from(), None, "until it is answered");
    story.renewed(lease, at(7.5), Renewed::Renewed).next();
    let how = Notice::Renewal {
        outcome: RenewalOutcome::Renewed,
        took: Duration::ZERO,
        remaining: Duration::from_millis(29_698),
    };
    assert_eq!(story.reports, [Command::Notice(how)]);
    story.at(17.0).tell(Event::Suspicion).renews();
    story.renew_unknown(lease, at(17.0)).next();
    assert_eq!(story.machine.renewable_from(), None, "a retry keeps its back-off");
    story.tell(Event::RenewEarly).says_nothing();
}

/// Nothing tells two copies of a holder apart: both renew its lease, and a release by one frees it under the other.
#[test]
fn copies_of_a_holder_both_hold_until_one_releases() {
    let (mut original, lease, hold) = Story::with_a_holding();
    let mut copy = original.copy();
    for story in [&mut original, &mut copy] {
        let (renewed, sent) = story.at(10.0).renews();
        assert_eq!(renewed, lease);
        story.renewed(lease, sent, Renewed::Renewed);
        story.says(Command::Extended { hold, deadline: at(40.0 - 0.302) });
    }
    original.at(11.0).tell(Event::Drop { hold });
    original.says(Command::Ended { hold, how: HoldEnd::Released });
    assert_eq!(original.releases(0), lease);
    let (_, sent) = copy.at(20.0).renews();
    copy.renewed(lease, sent, Renewed::Gone);
    copy.loses(hold, LostReason::Gone);
}
