//! Fixed seeds, seeds that failed once, and fresh ones, and the repeatability of runs.

use lock_sim::{Topology, campaign, run};
use lock_testkit::Seed;

const FIXED: u64 = 100;
/// The seeds of runs that failed once.
const FAILED_ONCE: [u64; 1] = [
    // A process that had not heard from the store stamped an acquire with its own clock, which was ahead.
    7_595_975_020_226_559_063,
];
const FRESH: u64 = 900;

#[test]
fn nothing_happens_that_must_not() {
    let first = Seed::of_this_run();
    let times = if std::env::var_os("LOCK_LONG").is_some() { 20 } else { 1 };
    let mut seeds = vec![first];
    if std::env::var_os(Seed::VARIABLE).is_none() {
        seeds.extend((0..FIXED).chain(FAILED_ONCE).map(Seed::new));
        let mut fresh = first.stream();
        seeds.extend((1..FRESH * times).map(|_| Seed::new(fresh.number())));
    }
    let tally = campaign(Topology::Single, &seeds, None);
    eprintln!("{tally}");
    for failure in &tally.failures {
        eprintln!("{failure}\nrepeat it with {}={} cargo test -p lock-sim", Seed::VARIABLE, failure.seed);
    }
    assert!(tally.failures.is_empty(), "{} of {} runs failed", tally.failures.len(), tally.runs);
    let batches = tally.sum.counts.get("batch").copied().unwrap_or(0);
    assert!(tally.runs < FIXED || batches > tally.runs, "only {batches} calls had several operations");
    assert!(tally.fewest_events >= 2_000, "a run had only {} events", tally.fewest_events);
}

#[test]
fn a_seed_repeats_its_run() {
    let fresh = Seed::of_this_run().stream().number();
    for seed in (0..20).chain([fresh]).map(Seed::new) {
        let runs = [(); 2].map(|()| run(Topology::Single, seed, None));
        let [first, second] = runs.map(|run| run.unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(first, second, "seed {seed}");
    }
}
