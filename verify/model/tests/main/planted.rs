//! Each planted bug is found in seconds, by the promise that it breaks. The shortest path to it is printed.

use crate::support::{search, secs, shortest};
use lock_model::{Budget, Config, Law, Want, tell};
use lock_testkit::planted::{
    Checker,
    PlantedBug::{self, *},
};

const NONE: Budget = Budget::NONE;
const A: Want = Want::of(1);

/// Owners of one process, with at most one hand-off.
const THREE: [Want; 3] = [Want::of(1).passing(1), Want::of(2).passing(1), Want::of(3).passing(1)];

/// Two processes with one acquire each.
fn two(faults: Budget) -> Config {
    Config::new(&[&[A], &[A]], secs(30)).faults(faults)
}

/// One process whose owner enters twice.
fn twice(inner: Want, faults: Budget) -> Config {
    Config::new(&[&[A, inner]], secs(13)).faults(faults)
}

/// Explicit releases of one process, while the store may lose a lease.
fn by_hand() -> Config {
    let scripts: [&[Want]; 2] = [&[A.by_hand()], &[A]];
    Config::new(&scripts, secs(30)).faults(Budget { evict: 1, ..NONE })
}

/// Two acquires of one process and one of another, over a store that may restart with old data.
fn old_data() -> Config {
    Config::new(&[&[A, A], &[A]], secs(30)).faults(Budget { restore: 1, ..NONE })
}

/// Asserts that the search finds the bug by one of these promises, and finds nothing without the bug.
fn finds(bug: PlantedBug, config: Config, laws: &[Law]) {
    finds_within(300_000, bug, config, laws);
}

/// The same, where this many states are searched without the bug.
pub(crate) fn finds_within(most: usize, bug: PlantedBug, config: Config, laws: &[Law]) {
    search("without the bug", &config, most).nothing("without the bug", &config);
    let config = config.with(bug);
    let (law, path) = shortest(&config, 3_000_000).unwrap_or_else(|| panic!("{bug:?} was not found"));
    let (steps, text) = tell(&config, path);
    println!("{bug:?}: {law}, after {steps} steps:\n{text}");
    assert!(laws.iter().any(|expected| expected.name() == law), "{bug:?} broke {law}");
}

/// A process with these waiters and a second process, over a name that was used before.
fn chain(own: &[Want], faults: Budget) -> Config {
    Config { used_before: true, ..Config::new(&[own, &[A]], secs(8)).faults(faults) }
}

macro_rules! found {
    ($($test:ident: $bug:ident in $config:expr, by $($law:ident)|+;)*) => {
        $(
            #[test]
            fn $test() {
                finds($bug, $config, &[$(Law::$law),+]);
            }
        )*

        const FOUND: &[PlantedBug] = &[$($bug),*];
    };
}

found! {
    deadline_from_reply: DeadlineFromReply in two(Budget { delay: 1, ..NONE }), by Deadline;
    delete_without_compare: DeleteWithoutCompare in two(Budget { duplicate: 1, ..NONE }), by OwnOnly;
    renewal_without_compare: RenewWithoutCompare in two(Budget { evict: 1, ..NONE }), by OwnOnly;
    renewal_that_creates: RenewalCreates in two(Budget { delay: 1, ..NONE }), by NoResurrection;
    counted_depth: CountsDepth in two(Budget { lose: 1, ..NONE }), by Depth | NoOrphan;
    reentry_that_creates: ReentryCreates in twice(A, Budget { evict: 1, ..NONE }), by NoResurrection;
    late_acquire: IgnoresNotAfter in two(Budget { delay: 1, cancel: 1, ..NONE }), by NoOrphan;
    late_subscription: SubscribesLate in two(NONE), by NoDeadWait;
    wake_ignored_during_attempt: WakeIgnoredDuringAttempt in two(NONE), by NoDeadWait;
    shortened_expiry: ShortensExpiry in twice(Want::short(1), NONE), by Deadline;
    overlapping_depths: DepthOverlap in twice(A, NONE), by Deadline;
    attempt_not_undone: NoUndo in two(Budget { cancel: 1, ..NONE }), by NoOrphan;
    renewal_error_is_loss: RenewalErrorIsLoss in two(Budget { lose: 1, ..NONE }), by LossReportedOnce;
    lost_renewal_succeeds: LostRenewalSucceeds in two(Budget { lose: 1, ..NONE }), by Deadline;
    loss_not_reported: LossNotReported in two(Budget { pause: 1, ..NONE }), by LossReportedOnce;
    gone_is_released: GoneIsReleased in by_hand(), by LossReportedOnce;
    tokens_restart: TokensRestart in old_data(), by TokenOrder;
    unreserved_hand_off: HandsOffBeyondRange in Config::new(&[&THREE, &[A]], secs(8)),
        by HandOff | TokenOrder | OneHold;
    endless_hand_off: HandsOffForEver in chain(&THREE, NONE), by HandOff;
    other_terms_hand_off: HandsOffUnderOtherTerms in chain(&[THREE[0], Want::short(2).passing(1)], NONE), by HandOff;
    suspect_hand_off: HandsOffSuspect in chain(&THREE[..2], Budget { suspect: 1, ..NONE }), by HandOff;
    extended_hand_off: HandsOffExtended in chain(&[THREE[0], THREE[0], THREE[1]], NONE), by HandOff;
    ids_drawn_ahead: DrawsIdsAhead in Config::new(&[&[A], &[A]], secs(13)).copied(), by Exclusion;
    ignored_minimum: IgnoresMinHold in Config::new(&[&[Want::short(1).at_least(secs(2))], &[A]], secs(8)), by MinimumHold;
}

#[test]
fn every_bug_has_a_test() {
    let listed: Vec<_> = PlantedBug::caught_by_checker(Checker::Model).collect();
    let found = [FOUND, crate::quorum::FOUND, crate::pools::FOUND].concat();
    assert!(
        listed.iter().all(|bug| found.contains(bug)) && found.len() == listed.len(),
        "{listed:?}, {found:?}"
    );
}

/// Promises that others protect so well that no bug above breaks them first. Each can be broken, and this is detected.
#[test]
fn promises_protected_by_others_can_be_broken() {
    let slow = two(Budget { delay: 1, ..NONE });
    let paused = two(Budget { delay: 1, pause: 1, ..NONE });
    let old = old_data();
    let lost = two(Budget { lose: 1, ..NONE });
    let cases = [
        (DeadlineFromReply, &paused, Law::Exclusion),
        (RenewalErrorIsLoss, &lost, Law::LossReportedOnce),
        (TokensRestart, &old, Law::OneHold),
        (TokensRestart, &old, Law::Fence),
        (RenewalCreates, &slow, Law::NoOrphan),
    ];
    for (bug, config, law) in cases {
        let config = Config { only: Some(law), ..config.clone().with(bug) };
        let (found, path) = shortest(&config, 3_000_000).unwrap_or_else(|| panic!("{law:?} was not broken"));
        println!("{bug:?} breaks {found}, after {} steps", path.len() - 1);
        assert_eq!(found, law.name());
    }
}
