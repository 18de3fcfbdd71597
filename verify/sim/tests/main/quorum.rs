//! The same over a quorum of three nodes.

use lock_sim::{Topology, campaign, run};
use lock_testkit::Seed;

const FIXED: u64 = 50;
/// The seeds of runs that failed once.
const FAILED_ONCE: [u64; 5] = [
    // The release of a lost round was lost, and the next one waited for its answer.
    7,
    // A node whose clock had been ahead was outbid repeatedly, by tokens that grew only with the clock.
    17_950_677_757_290_976_640,
    // A clock that was corrected by an hour gave a renewal an hour, and its release continued for as long.
    17_296_321_107_515_617_886,
    // A subscription was cancelled, and the answer awaited without a limit.
    1_898_607_344_944_714_301,
    // One node had the lease of a process that was gone, another was young, and rounds followed one another without a
    // pause.
    7_116_353_161_815_408_700,
];
const FRESH: u64 = 350;

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
    let tally = campaign(Topology::Quorum, &seeds, None);
    eprintln!("{tally}");
    for failure in &tally.failures {
        eprintln!(
            "{failure}\nrepeat it with {}={} cargo test -p lock-sim quorum",
            Seed::VARIABLE,
            failure.seed
        );
    }
    assert!(tally.failures.is_empty(), "{} of {} runs failed", tally.failures.len(), tally.runs);
    for what in ["heal", "quarantined vote", "stale vote", "vote with a clock off", "restart empty"] {
        assert!(tally.runs < FIXED || tally.sum.counts.contains_key(what), "there was no {what}");
    }
}

#[test]
fn a_seed_repeats_its_run() {
    let fresh = Seed::of_this_run().stream().number();
    for seed in (0..5).chain([fresh]).map(Seed::new) {
        let runs = [(); 2].map(|()| run(Topology::Quorum, seed, None));
        let [first, second] = runs.map(|run| run.unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(first, second, "seed {seed}");
    }
}
