//! Seeds: fixed ones, ones that once failed, then fresh ones; and runs that repeat.

use lock_sim::{Tally, Topology, campaign, run};
use lock_testkit::Seed;

/// The seeds to run.
pub(crate) struct Seeds<'a> {
    pub(crate) fixed: u64,
    /// Runs that once failed.
    pub(crate) failed_once: &'a [u64],
    pub(crate) fresh: u64,
}

impl Seeds<'_> {
    /// Runs all of them, or only the one in the environment, and fails if any run does. `filter` names the test.
    pub(crate) fn hold(&self, topology: Topology, filter: &str) -> Tally {
        let first = Seed::of_this_run();
        let times = if std::env::var_os("LOCK_LONG").is_some() { 20 } else { 1 };
        let mut seeds = vec![first];
        if std::env::var_os(Seed::VARIABLE).is_none() {
            seeds.extend((0..self.fixed).chain(self.failed_once.iter().copied()).map(Seed::new));
            let mut fresh = first.stream();
            seeds.extend((1..self.fresh * times).map(|_| Seed::new(fresh.number())));
        }
        let tally = campaign(topology, &seeds, None);
        eprintln!("{tally}");
        for failure in &tally.failures {
            let (variable, seed) = (Seed::VARIABLE, failure.seed);
            eprintln!("{failure}\nrepeat with {variable}={seed} cargo test -p lock-sim {filter}");
        }
        assert!(tally.failures.is_empty(), "{} of {} runs failed", tally.failures.len(), tally.runs);
        tally
    }
}

/// Fails unless each of these seeds, and a fresh one, gives the same run twice.
pub(crate) fn repeat(topology: Topology, seeds: u64) {
    let fresh = Seed::of_this_run().stream().number();
    for seed in (0..seeds).chain([fresh]).map(Seed::new) {
        let runs = [(); 2].map(|()| run(topology, seed, None));
        let [first, second] = runs.map(|run| run.unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(first, second, "seed {seed}");
    }
}
