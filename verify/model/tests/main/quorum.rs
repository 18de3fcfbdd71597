//! Rounds of a quorum of three nodes keep every promise, in every order of events that is tried, and each planted bug
//! is found by the promise that it breaks.

use crate::support::{Found, long, search_model};
use lock_model::quorum::{QuorumBudget, QuorumConfig, QuorumLaw, QuorumModel};
use lock_testkit::planted::PlantedBug::{self, *};

const NONE: QuorumBudget = QuorumBudget::NONE;

fn search(name: &str, config: &QuorumConfig, most: usize) -> Found<QuorumModel> {
    let found = search_model(name, QuorumModel { config: config.clone() }, 'Q', most);
    for (law, path) in &found.broken {
        let acts: Vec<_> = path.iter().filter_map(|(_, act)| act.as_ref()).collect();
        println!("{name}: {law}, after {} steps: {acts:?}", acts.len());
    }
    found
}

fn holds(name: &str, config: &QuorumConfig) -> Found<QuorumModel> {
    let found = search(name, config, if long() { 8_000_000 } else { 600_000 });
    assert!(found.broken.is_empty(), "{name}");
    found
}

/// Leases end at any moment, clocks stand still, messages take any time: the order of tokens depends on the counters
/// only.
#[test]
fn tokens_grow_without_any_timing_assumption() {
    let two = QuorumConfig::new(&[2, 1], None);
    let found = holds("two clients without time", &two);
    assert_eq!(found.seen.len(), 3, "{:?}", found.seen);
    holds("slow messages", &two.clone().faults(QuorumBudget { slow: 2, ..NONE }));
    holds("a lost message", &two.clone().faults(QuorumBudget { lose: 1, give_up: 1, ..NONE }));
    holds("three clients without time", &QuorumConfig::new(&[1, 1, 1], None));
}

#[test]
fn holders_exclude_one_another_within_the_timing_assumptions() {
    let two = |faults| QuorumConfig::new(&[2, 2], Some(7)).faults(faults);
    holds("two clients", &two(NONE));
    holds("a third holds a majority", &two(NONE).held());
    holds("split votes", &QuorumConfig::new(&[1, 1, 1], Some(2)));
    holds("a node without its data", &two(QuorumBudget { crash: 1, lose: 1, ..NONE }));
    holds("a slow message", &two(QuorumBudget { slow: 1, give_up: 1, ..NONE }));
    holds("slow messages and a restart", &two(QuorumBudget { slow: 2, crash: 1, ..NONE }));
    holds("a clock behind", &two(QuorumBudget { slow: 1, give_up: 1, ..NONE }).ahead([0, 0, -2]));
}

/// Holders renew, and nodes that lost a lease are healed.
#[test]
fn renewals_and_heals_keep_every_promise() {
    let two = |faults| QuorumConfig::new(&[1, 1], Some(6)).renewals(2).faults(faults);
    let found = holds("renewals", &two(NONE));
    assert_eq!(found.seen.len(), 3, "{:?}", found.seen);
    holds("a hold of a bare majority", &two(QuorumBudget { lose: 1, slow: 1, ..NONE }).holding());
    holds("a heal of a node without its data", &two(QuorumBudget { crash: 1, slow: 1, ..NONE }));
    holds(
        "a slow heal and a clock behind",
        &two(QuorumBudget { slow: 1, ..NONE }).holding().ahead([0, 0, -2]),
    );
    holds("renewals without time", &QuorumConfig::new(&[1, 1], None).renewals(1));
}

/// Asserts that the search finds the bug by this promise, and finds nothing without the bug.
fn finds(bug: PlantedBug, config: QuorumConfig, law: QuorumLaw) {
    let most = 6_000_000;
    let found = search(&format!("{bug:?}"), &config.clone().with(bug, law), most);
    let broken: Vec<_> = found.broken.iter().map(|(broken, _)| *broken).collect();
    assert!(broken.contains(&law.name()), "{bug:?}: {broken:?}");
    let without = search("without the bug", &config, 250_000);
    assert!(without.broken.is_empty(), "without {bug:?}");
}

macro_rules! found {
    ($($test:ident: $bug:ident in $config:expr, by $law:ident;)*) => {
        $(
            #[test]
            fn $test() {
                finds($bug, $config, QuorumLaw::$law);
            }
        )*

        pub(crate) const FOUND: &[PlantedBug] = &[$($bug),*];
    };
}

found! {
    maximum_of_majority: MaximumOfMajority in QuorumConfig::new(&[2, 1], None), by TokenOrder;
    added_votes: AddsVotes in QuorumConfig::new(&[1, 1], None), by TokenOrder;
    reused_lease: ReusesLease in QuorumConfig::new(&[2, 1], Some(3))
        .faults(QuorumBudget { slow: 1, give_up: 1, ..NONE }), by Exclusion;
    publishing_undo: UndoPublishes in QuorumConfig::new(&[2, 2], Some(1)).held(), by NoCircle;
    no_quarantine: NoQuarantine in QuorumConfig::new(&[1, 1], Some(3))
        .faults(QuorumBudget { lose: 1, crash: 1, ..NONE }), by Exclusion;
    one_clock: OneClockForNodes in QuorumConfig::new(&[1, 1], Some(4))
        .faults(QuorumBudget { slow: 1, give_up: 1, ..NONE })
        .ahead([0, 0, -2]), by NoOrphan;
    added_renewals: AddsRenewals in QuorumConfig::new(&[0, 1], Some(4)).renewals(2).holding()
        .faults(QuorumBudget { lose: 2, ..NONE }), by Exclusion;
    heal_without_counter: HealKeepsCounter in QuorumConfig::new(&[1, 1], Some(3)).renewals(1).floor()
        .faults(QuorumBudget { crash: 2, ..NONE }), by TokenOrder;
}
