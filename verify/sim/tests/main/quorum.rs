//! A quorum of three nodes: seeds that hold, and runs that repeat.

use crate::support::{Seeds, repeat};
use lock_sim::Topology;

const SEEDS: Seeds<'_> = Seeds {
    fixed: 50,
    failed_once: &[
        // The release of a lost round was lost, and the next one waited for its answer.
        7,
        // A node whose clock had been ahead was outbid repeatedly, by tokens that grew only with the clock.
        17_950_677_757_290_976_640,
        // A clock that was corrected by an hour gave a renewal an hour, and its release continued for as long.
        17_296_321_107_515_617_886,
        // A subscription was cancelled, and the answer awaited without a limit.
        1_898_607_344_944_714_301,
        // One node had the lease of a process that was gone, another was young, and rounds followed one another without a pause.
        7_116_353_161_815_408_700,
    ],
    fresh: 350,
};

#[test]
fn nothing_happens_that_must_not() {
    let tally = SEEDS.hold(Topology::Quorum, "quorum");
    for what in ["heal", "quarantined vote", "stale vote", "vote with a clock off", "restart empty"] {
        assert!(tally.runs < SEEDS.fixed || tally.sum.counts.contains_key(what), "there was no {what}");
    }
}

#[test]
fn a_seed_repeats_its_run() {
    repeat(Topology::Quorum, 5);
}
