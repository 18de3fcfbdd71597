//! Hand-offs of a lease between waiters in this process.

use super::*;
use crate::options::{HandOffBudget, TermValues};

pub(super) const LOT: u64 = 256;

/// Returns terms with this budget for hand-offs.
pub(super) fn budget(passes: u32, within: Duration) -> Terms {
    TermValues { hand_off: HandOffBudget { passes, within }, ..*terms() }.into()
}

/// `A` holds the lock with further tokens in reserve, and this many waiters wait behind it.
fn line_of(waiters: u64, terms: &Terms) -> (Story, LeaseNumber, HoldId) {
    let mut story = Story::begins();
    for waiter in 1..=waiters + 1 {
        story.enters_with(WaiterId(waiter), |entry| entry.terms = terms.clone());
    }
    let lease = story.tries();
    let hold = story.granted_with(lease, LOT);
    story.grants(A);
    (story, lease, hold)
}

fn next_of(hold: HoldId) -> HoldId {
    HoldId { token: hold.token.next(), ..hold }
}

/// The last guard of this hold is released, and that waiter gets the next hold.
#[track_caller]
fn passes(story: &mut Story, hold: HoldId, to: WaiterId) -> HoldId {
    story.tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    let grant = story.grants(to);
    assert_eq!((grant.hold, grant.by, grant.depth), (next_of(hold), GrantSource::HandOff, 1));
    story.says_nothing();
    grant.hold
}

/// The last guard of this hold is released, and the lease goes to the store.
#[track_caller]
fn goes_to_store(story: &mut Story, hold: HoldId) {
    story.tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    assert_eq!(story.releases(0), hold.lease);
    story.says_nothing();
}

pub(super) fn reserve_of(command: &Command) -> u32 {
    match command {
        Command::Io {
            operation: Operation::Acquire(AcquireRequest { mode: AcquireMode::New { reserve, .. }, .. }),
            ..
        } => *reserve,
        other => panic!("not an attempt: {other:?}"),
    }
}

#[test]
fn release_hands_the_lease_to_the_next_waiter_in_one_step() {
    let (mut story, _, hold) = line_of(1, &terms());
    story.at(0.001).tell(Event::Release { hold, ticket: Ticket(1) });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.says(Command::ReleaseAnswered { ticket: Some(Ticket(1)), answer: Ok(ReleaseOutcome::HandedOn) });
    let grant = story.grants(B);
    assert_eq!((grant.hold, grant.by), (next_of(hold), GrantSource::HandOff));
    assert_eq!(grant.deadline, at(29.698), "the lease is the same");
    story.says_nothing();
    assert_eq!(
        story.machine.holder().map(|(owner, hold, ..)| (owner, hold)),
        Some((OwnerId(B.0), grant.hold))
    );
}

#[test]
fn pinned_hold_is_not_handed_on() {
    let (mut story, _, hold) = line_of(1, &terms());
    story.tell(Event::Pin { hold: next_of(hold) });
    story.tell(Event::Pin { hold });
    story.says_nothing();
    goes_to_store(&mut story, hold);
}

#[test]
fn drop_reports_the_release_outcome() {
    let (mut story, _, hold) = line_of(1, &terms());
    let next = passes(&mut story, hold, B);
    story.tell(Event::Drop { hold: next }).tell(Event::Drop { hold: next });
    let answers = [ReleaseOutcome::HandedOn, ReleaseOutcome::Released, ReleaseOutcome::AlreadyExpired];
    let reported = answers.map(|answer| Command::ReleaseAnswered { ticket: None, answer: Ok(answer) });
    assert_eq!(story.reports, reported);
}

#[test]
fn acquire_reserves_tokens_only_for_further_waiters() {
    let reserved = |terms: &Terms, waiters: u64| {
        let mut story = Story::begins();
        let enter = |story: &mut Story, waiter| {
            story.enters_with(WaiterId(waiter), |entry| entry.terms = terms.clone());
        };
        enter(&mut story, 1);
        let lease = story.tries();
        for waiter in 2..=waiters {
            enter(&mut story, waiter);
        }
        story.at(0.001).acquire_unknown(lease).at(0.1);
        reserve_of(&story.next())
    };
    assert_eq!(reserved(&terms(), 1), 0);
    assert_eq!(reserved(&terms(), 2), 256);
    let ms = Duration::from_millis(1);
    assert_eq!(reserved(&budget(3, ms), 2), 3);
    assert_eq!((reserved(&budget(0, ms), 2), reserved(&budget(3, Duration::ZERO), 2)), (0, 0));
    assert_eq!(reserved(&fixed(Duration::from_secs(5)), 2), 0);
}

#[test]
fn chain_ends_when_the_reserved_range_is_used_up() {
    let (mut story, lease, mut hold) = line_of(LOT + 2, &budget(1_000, Duration::from_secs(1)));
    for pass in 0..LOT {
        hold = passes(&mut story, hold, WaiterId(pass + 2));
    }
    goes_to_store(&mut story, hold);
    story.released(lease, 0, Released::Released { listeners: Some(0) });
    assert_ne!(story.tries(), lease, "nobody else is subscribed, so it tries again immediately");
}

#[test]
fn chain_ends_when_its_budget_is_spent() {
    let ms = Duration::from_millis;
    let (mut story, _, hold) = line_of(5, &budget(2, ms(10)));
    let hold = passes(&mut story, hold, B);
    let hold = passes(&mut story, hold, C);
    goes_to_store(&mut story, hold);

    let (mut story, _, hold) = line_of(5, &budget(2, ms(10)));
    let hold = passes(story.at(0.009_9), hold, B);
    goes_to_store(story.at(0.010), hold);
}

#[test]
fn zero_budget_disables_hand_off() {
    for off in [budget(0, Duration::from_secs(1)), budget(9, Duration::ZERO)] {
        let (mut story, lease, hold) = line_of(2, &off);
        goes_to_store(&mut story, hold);
        story.released(lease, 0, Released::Released { listeners: Some(0) });
        let lease = story.tries();
        let hold = story.granted(lease);
        assert_eq!(story.grants(B).by, GrantSource::Store);
        goes_to_store(&mut story, hold);
    }
}

#[test]
fn suspect_hold_goes_to_the_store() {
    let (mut story, lease, hold) = line_of(2, &terms());
    story.at(0.001).tell(Event::Suspicion).renews();
    goes_to_store(&mut story, hold);
    // The reply to that renewal belongs to a lease that is over.
    story.renewed(lease, at(0.001), Renewed::Renewed).says_nothing();
}

/// The renewal may have been executed before the forced release that is suspected.
#[test]
fn suspicion_ends_the_chain_of_a_confirmed_hold() {
    let (mut story, lease, hold) = line_of(3, &terms());
    let hold = passes(&mut story, hold, B);
    story.at(0.001).tell(Event::Suspicion).renews();
    story.renewed(lease, at(0.001), Renewed::Renewed).next();
    assert!(!story.machine.is_suspect());
    goes_to_store(&mut story, hold);
}

#[test]
fn later_lease_of_the_process_has_a_chain_of_its_own() {
    let (mut story, lease, hold) = line_of(3, &terms());
    story.at(0.001).tell(Event::Suspicion).renews();
    goes_to_store(&mut story, hold);
    story.released(lease, 0, Released::Released { listeners: Some(0) });
    let lease = story.tries();
    let hold = story.granted_with(lease, LOT);
    story.grants(B);
    passes(&mut story, hold, C);
}

/// `A` re-enters its hold with a lease of this length, and releases both guards at second 0.5, before the chain's
/// budget is spent.
fn reentered_with(lease: Duration, answer: impl FnOnce(&mut Story, LeaseNumber)) -> (Story, HoldId) {
    let terms = budget(9, Duration::from_secs(60));
    let (mut story, id, hold) = line_of(1, &terms);
    let again = WaiterId(9);
    story.enters_with(again, |entry| {
        entry.owner = OwnerId(A.0);
        entry.terms = TermValues { lease, ..*terms }.into();
        entry.join = Some(Join::Extend(hold));
    });
    assert_eq!(story.tries_to_keep(2), id);
    answer(&mut story, id);
    (story, hold)
}

#[test]
fn extended_lease_is_not_handed_off() {
    for (lease, is_longer) in [(20, false), (30, false), (31, true), (3_600, true)] {
        let (mut story, hold) = reentered_with(Duration::from_secs(lease), |story, id| {
            story.acquired(id, Acquired::Reentered).next();
            story.grants(WaiterId(9));
            // The inner guard goes, and the store keeps one.
            story.at(0.5).tell(Event::Drop { hold: HoldId { lease: id, token: FencingToken::new(101) } });
            assert_eq!(story.releases(1), id);
            story.released(id, 1, Released::Kept);
        });
        match is_longer {
            true => goes_to_store(&mut story, hold),
            false => assert_eq!(passes(&mut story, hold, B).lease, hold.lease, "{lease} s"),
        }
    }
}

/// The store may have applied it, though its reply was lost.
#[test]
fn lease_with_an_unanswered_extension_is_not_handed_off() {
    let (mut story, hold) = reentered_with(Duration::from_secs(3_600), |story, lease| {
        story.tell(Event::Acquired { lease, outcome: Err(Failure::UNKNOWN) });
        story.tell(Event::Leave { waiter: WaiterId(9) }).at(0.5);
        assert_eq!(story.releases(1), lease);
        story.released(lease, 1, Released::Kept);
    });
    goes_to_store(&mut story, hold);
}

#[test]
fn extended_lease_is_handed_off_once_it_has_run_down() {
    let (mut story, hold) = reentered_with(Duration::from_secs(45), |story, id| {
        story.acquired(id, Acquired::Reentered).next();
        story.grants(WaiterId(9));
        story.at(1.0).tell(Event::Drop { hold: HoldId { lease: id, token: FencingToken::new(101) } });
        story.releases(1);
        story.released(id, 1, Released::Kept);
        story.at(10.0);
        let (_, sent) = story.renews();
        story.renewed(id, sent, Renewed::Renewed).at(16.0);
        story.next();
    });
    assert!(passes(&mut story, hold, B).token > hold.token);
}

#[test]
fn renewal_from_before_a_suspicion_confirms_nothing() {
    let (mut story, lease, hold) = line_of(2, &budget(9, Duration::from_secs(60)));
    story.at(10.0);
    let (_, before) = story.renews();
    // The server restarts without its data; the renewal was applied before, and its reply was in transit.
    story.at(10.5).tell(Event::Suspicion).renews();
    story.renewed(lease, before, Renewed::Renewed);
    story.says(Command::Extended { hold, deadline: at(39.698) });
    assert!(story.machine.is_suspect(), "nobody knows yet whether the store still keeps the lease");
    goes_to_store(&mut story, hold);
}

#[test]
fn waiter_with_other_terms_is_served_by_the_store() {
    let (mut story, _, hold) = Story::with_a_holding_in_a_chain();
    story.enters_with(C, |entry| entry.terms = bounded(Duration::from_secs(60)));
    let hold = passes(&mut story, hold, B);
    goes_to_store(&mut story, hold);
}

#[test]
fn doubtful_attempt_sends_the_lease_to_the_store() {
    let mut story = Story::begins();
    story.enters(A).enters(B);
    let lease = story.tries();
    story.acquire_unknown(lease).at(0.06).tries();
    let hold = story.granted_with(lease, LOT);
    story.grants(A);
    goes_to_store(&mut story, hold);
}

#[test]
fn depth_unknown_to_the_store_sends_the_lease_there() {
    let (mut story, lease, hold) = line_of(1, &terms());
    story.enters_as(C, A);
    story.tries_to_keep(2);
    // The re-entry is in flight when the last guard is released.
    story.tell(Event::Leave { waiter: C }).tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    story.says_nothing();
    story.acquired(lease, Acquired::Reentered);
    assert_eq!(story.releases(0), lease);
    story.says_nothing();
}

#[test]
fn lease_about_to_end_goes_to_the_store() {
    let (mut story, _, hold) = line_of(1, &budget(9, Duration::from_secs(60)));
    story.paused_until(26.697).tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    assert_eq!(story.grants(B).deadline, at(29.698), "an operation timeout and a millisecond are left");

    let (mut story, _, hold) = line_of(1, &budget(9, Duration::from_secs(60)));
    story.paused_until(26.698);
    goes_to_store(&mut story, hold);
}

#[test]
fn lost_lease_is_not_handed_off() {
    let (mut story, lease, hold) = line_of(2, &budget(9, Duration::from_secs(60)));
    story.at(10.0);
    let (_, sent) = story.renews();
    story.renewed(lease, sent, Renewed::Gone);
    story.loses(hold, LostReason::Gone);
    story.tries();
    story.says_nothing();
}

#[test]
fn renewal_of_a_lease_continues_for_the_next_holder() {
    let (mut story, lease, hold) = line_of(3, &budget(9, Duration::from_secs(60)));
    story.at(10.0);
    let (_, sent) = story.renews();
    let hold = passes(story.at(10.5), hold, B);
    story.renewed(lease, sent, Renewed::Renewed);
    story.says(Command::Extended { hold, deadline: at(39.698) });
    story.at(20.0);
    let (renewed, sent) = story.renews();
    assert_eq!((renewed, sent), (lease, at(20.0)));
    let hold = passes(&mut story, hold, C);
    story.renewed(lease, sent, Renewed::Gone);
    story.loses(hold, LostReason::Gone);
}

#[test]
fn lease_is_released_once_when_its_last_holder_leaves() {
    let (mut story, lease, hold) = line_of(2, &terms());
    let hold = passes(&mut story, hold, B);
    let hold = passes(&mut story, hold, C);
    goes_to_store(&mut story, hold);
    story.released(lease, 0, Released::Released { listeners: Some(0) }).says_nothing();
    story.ends_idle();
}

#[test]
fn siblings_enter_the_handed_off_hold() {
    let (mut story, lease, hold) = Story::with_a_holding_in_a_chain();
    let d = WaiterId(4);
    story.enters_with(C, |entry| (entry.owner, entry.owned) = (OwnerId(9), true));
    story.enters_with(d, |entry| (entry.owner, entry.owned) = (OwnerId(9), true));
    let hold = passes(&mut story, hold, B);
    story.tell(Event::Drop { hold });
    story.says(Command::Ended { hold, how: HoldEnd::Released });
    let granted = story.grants(C);
    assert_eq!(story.tries_to_keep(2), lease);
    story.acquired(lease, Acquired::Reentered).next();
    let sibling = story.grants(d);
    assert_eq!((sibling.hold, sibling.by), (granted.hold, GrantSource::Reentry));
}

#[test]
fn max_hold_counts_from_the_grant_of_each_holder() {
    let most = Duration::from_secs(15);
    let terms = TermValues { max_hold: Some(most), ..*budget(9, Duration::from_secs(60)) }.into();
    let (mut story, _, hold) = line_of(2, &terms);
    story.at(9.0).tell(Event::Drop { hold });
    story.next();
    assert_eq!(story.grants(B).max_hold_at, at(24.0));
}

impl Story {
    /// `A` holds the lock with tokens in reserve, and `B` waits.
    fn with_a_holding_in_a_chain() -> (Self, LeaseNumber, HoldId) {
        line_of(1, &terms())
    }
}
