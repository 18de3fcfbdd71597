//! The oracle is trusted because it finds what was planted.

use lock_sim::{Plant, campaign, run};
use lock_testkit::Seed;

const MOST: u64 = 300;

#[test]
fn planted_bugs_are_found() {
    let seeds: Vec<_> = (0..MOST).map(Seed::new).collect();
    for plant in Plant::ALL {
        let tally = campaign(&seeds, plant);
        let failure = tally.failures.first();
        let failure = failure.unwrap_or_else(|| panic!("{plant:?} was not found in {MOST} runs"));
        // By the bug and not by the seed.
        assert!(run(failure.seed, Plant::Nothing).is_ok(), "seed {} fails without {plant:?}", failure.seed);
        eprintln!("{plant:?}: found in run {}: {}", tally.runs, failure.what);
    }
}
