//! Each planted bug is found, in seconds, by the promise that it breaks. The shortest way to it is printed.

use crate::support::{search, secs, shortest};
use lock_model::{Budget, Config, Law, Mutant, Want, tell};

const NONE: Budget = Budget::NONE;
const A: Want = Want::of(1);

/// Two processes, one acquire each.
fn two(faults: Budget) -> Config {
    Config::new(&[&[A], &[A]], secs(30)).faults(faults)
}

/// One process whose owner enters twice.
fn twice(inner: Want, faults: Budget) -> Config {
    Config::new(&[&[A, inner]], secs(13)).faults(faults)
}

/// The search finds it, by one of these promises; without the bug, the same search finds nothing.
fn finds(mutant: Mutant, config: Config, laws: &[Law]) {
    search("without the bug", &config, 300_000).nothing("without the bug", &config);
    let config = config.with(mutant);
    let (law, path) = shortest(&config, 3_000_000).unwrap_or_else(|| panic!("{mutant:?} is not found"));
    let (steps, text) = tell(&config, path);
    println!("{mutant:?}: {law}, after {steps} steps:\n{text}");
    assert!(laws.iter().any(|expected| expected.name() == law), "{mutant:?} broke {law}");
}

#[test]
fn a_deadline_that_counts_from_the_reply() {
    finds(Mutant::DeadlineFromReply, two(Budget { delay: 1, ..NONE }), &[Law::Deadline]);
}

#[test]
fn a_release_that_deletes_without_comparing() {
    let faults = Budget { duplicate: 1, ..NONE };
    finds(Mutant::DeleteWithoutCompare, two(faults), &[Law::OwnOnly]);
}

#[test]
fn a_renewal_that_extends_without_comparing() {
    let faults = Budget { evict: 1, ..NONE };
    finds(Mutant::RenewWithoutCompare, two(faults), &[Law::OwnOnly]);
}

#[test]
fn a_renewal_that_creates() {
    finds(Mutant::RenewalCreates, two(Budget { delay: 1, ..NONE }), &[Law::NoResurrection]);
}

#[test]
fn an_acquire_that_counts_and_is_sent_again() {
    let faults = Budget { lose: 1, ..NONE };
    finds(Mutant::CountingDepth, two(faults), &[Law::Depth, Law::NoOrphan]);
}

#[test]
fn a_late_reentry_that_creates() {
    let faults = Budget { evict: 1, ..NONE };
    finds(Mutant::ReentryCreates, twice(A, faults), &[Law::NoResurrection]);
}

#[test]
fn a_late_acquire_that_is_carried_out() {
    let faults = Budget { delay: 1, cancel: 1, ..NONE };
    finds(Mutant::NoNotAfter, two(faults), &[Law::NoOrphan]);
}

#[test]
fn a_subscription_without_another_try() {
    finds(Mutant::CheckThenSubscribe, two(NONE), &[Law::NoDeadWait]);
}

#[test]
fn a_wake_up_that_is_ignored_during_an_attempt() {
    finds(Mutant::WakeIgnoredDuringAttempt, two(NONE), &[Law::NoDeadWait]);
}

#[test]
fn an_expiry_that_an_inner_hold_shortens() {
    finds(Mutant::InnerShortens, twice(Want::short(1), NONE), &[Law::Deadline]);
}

#[test]
fn operations_on_the_depth_that_overlap() {
    finds(Mutant::DepthOverlap, twice(A, NONE), &[Law::Deadline]);
}

#[test]
fn a_waiter_that_gives_up_and_undoes_nothing() {
    finds(Mutant::NoUndo, two(Budget { cancel: 1, ..NONE }), &[Law::NoOrphan]);
}

#[test]
fn a_failed_renewal_that_ends_the_hold() {
    finds(Mutant::RenewalErrorIsLoss, two(Budget { lose: 1, ..NONE }), &[Law::LostToldOnce]);
}

#[test]
fn a_failed_renewal_that_is_taken_for_a_success() {
    finds(Mutant::RenewalErrorIsFine, two(Budget { lose: 1, ..NONE }), &[Law::Deadline]);
}

#[test]
fn a_loss_that_nobody_is_told_of() {
    finds(Mutant::LossNotTold, two(Budget { pause: 1, ..NONE }), &[Law::LostToldOnce]);
}

#[test]
fn a_release_that_finds_nothing_and_is_taken_for_a_success() {
    let by_hand: [&[Want]; 2] = [&[A.by_hand()], &[A]];
    let config = Config::new(&by_hand, secs(30)).faults(Budget { evict: 1, ..NONE });
    finds(Mutant::GoneIsReleased, config, &[Law::LostToldOnce]);
}

#[test]
fn tokens_that_go_on_from_old_data() {
    let faults = Budget { restore: 1, ..NONE };
    let config = Config::new(&[&[A, A], &[A]], secs(30)).faults(faults);
    finds(Mutant::StaleCounter, config, &[Law::TokenOrder]);
}

/// Promises that other promises guard so well that no bug above breaks them first. Each can be broken, and is seen.
#[test]
fn promises_that_are_broken_second() {
    let slow = two(Budget { delay: 1, ..NONE });
    let paused = two(Budget { delay: 1, pause: 1, ..NONE });
    let old = Config::new(&[&[A, A], &[A]], secs(30)).faults(Budget { restore: 1, ..NONE });
    let lost = two(Budget { lose: 1, ..NONE });
    let cases = [
        (Mutant::DeadlineFromReply, &paused, Law::Exclusion),
        (Mutant::RenewalErrorIsLoss, &lost, Law::LostToldOnce),
        (Mutant::StaleCounter, &old, Law::OneHold),
        (Mutant::StaleCounter, &old, Law::Fence),
        (Mutant::RenewalCreates, &slow, Law::NoOrphan),
    ];
    for (mutant, config, law) in cases {
        let config = Config { only: Some(law), ..config.clone().with(mutant) };
        let (found, path) = shortest(&config, 3_000_000).unwrap_or_else(|| panic!("{law:?} is not broken"));
        println!("{mutant:?} breaks {found}, after {} steps", path.len() - 1);
        assert_eq!(found, law.name());
    }
}
