//! One store: seeds that must pass, and runs that repeat.

use crate::support::{Seeds, repeat};
use lock_sim::Topology;

const SEEDS: Seeds<'_> = Seeds {
    fixed: 100,
    failed_once: &[
        // A process that had not heard from the store set the time limit of an acquire by its own clock, which was
        // ahead.
        7_595_975_020_226_559_063,
        // The oracle expected a minimum beyond the end of a fixed lease, of which the process heard late.
        7_906_146_710_550_912_025,
        // A re-entry failed before the last release. The minimum of the hold then counted as an outage.
        17_681_948_321_236_340_782,
        // The store lost a lease and granted it again to a late attempt, before its holder heard of the loss. The oracle
        // then forgot the loss.
        13_475_175_632_686_859_428,
    ],
    fresh: 900,
};

#[test]
fn seeds_keep_every_guarantee() {
    let tally = SEEDS.hold(Topology::Single, "seeds");
    let batches = tally.sum.counts.get("batch").copied().unwrap_or(0);
    assert!(tally.runs < SEEDS.fixed || batches > tally.runs, "only {batches} calls had several operations");
    let kept = tally.sum.counts.contains_key("kept for its minimum");
    assert!(tally.runs < SEEDS.fixed || kept, "no hold was released before its minimum");
    let copied = tally.sum.counts.contains_key("copy");
    assert!(tally.runs < SEEDS.fixed || copied, "no process was copied");
    assert!(tally.fewest_events >= 2_000, "a run had only {} events", tally.fewest_events);
}

#[test]
fn seed_repeats_its_run() {
    repeat(Topology::Single, 20);
}
