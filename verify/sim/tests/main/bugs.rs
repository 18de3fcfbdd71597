//! The oracle is trusted because it finds planted bugs.

use lock_sim::{Topology, campaign, run};
use lock_testkit::{
    Seed,
    planted::{Checker, PlantedBug},
};

const MAX_RUNS: u64 = 1_000;
/// Bugs of a quorum.
const QUORUM: [PlantedBug; 5] = [
    PlantedBug::AddsVotes,
    PlantedBug::ReusesLease,
    PlantedBug::UndoPublishes,
    PlantedBug::NoQuarantine,
    PlantedBug::OneClockForNodes,
];

#[test]
fn planted_bugs_are_found() {
    let seeds: Vec<_> = (0..MAX_RUNS).map(Seed::new).collect();
    for bug in PlantedBug::caught_by_checker(Checker::Sim) {
        let topology = if QUORUM.contains(&bug) { Topology::Quorum } else { Topology::Single };
        let tally = campaign(topology, &seeds, Some(bug));
        let failure = tally.failures.first();
        let failure = failure.unwrap_or_else(|| panic!("{bug:?} was not found in {MAX_RUNS} runs"));
        // The failure is caused by the bug and not by the seed.
        assert!(run(topology, failure.seed, None).is_ok(), "seed {} fails without {bug:?}", failure.seed);
        eprintln!("{bug:?}: found in run {}: {}", tally.runs, failure.what);
    }
}
