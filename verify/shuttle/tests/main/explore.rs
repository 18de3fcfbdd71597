//! Runs a story under many schedules, and checks that the planted bugs are found.

use lock_explored::{explored::restart_time, planting::plant};
use lock_testkit::{
    Seed,
    planted::{Checker, PlantedBug},
};
use shuttle::{
    Config, FailurePersistence, Runner,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
};
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

/// The number of schedules of each kind of scheduler.
const SCHEDULES: usize = 2_500;

/// The number of relevant switches in a PCT schedule.
const DEPTH: usize = 3;

/// Runs the story under many schedules, all of which must pass, and then with each of these bugs, which must make it
/// fail.
pub(crate) fn explore(story: fn(), bugs: &[PlantedBug]) {
    explore_some(SCHEDULES, story, bugs);
}

/// Explores this many schedules of each kind, for stories that hardly depend on them or that print a lot.
pub(crate) fn explore_some(schedules: usize, story: fn(), bugs: &[PlantedBug]) {
    let times = if std::env::var_os("LOCK_LONG").is_some() { 20 } else { 1 };
    let begin = Instant::now();
    let runs = Runs::default();
    plant(None);
    runs.under_all(Seed::of_this_run(), schedules * times, FailurePersistence::Print, story);
    eprintln!("{} schedules pass, in {:?}", runs.count(), begin.elapsed());
    for &bug in bugs {
        let runs = Runs::default();
        plant(Some(bug));
        // A fixed seed: a bug that was found once is always found.
        let search = || runs.under_all(Seed::new(1), schedules, FailurePersistence::None, story);
        let found = catch_unwind(AssertUnwindSafe(search));
        plant(None);
        assert!(found.is_err(), "{bug:?} was not found in {} schedules", runs.count());
        eprintln!("{bug:?}: found in schedule {}", runs.count());
    }
}

/// Each bug has a patch that plants it and a story that finds it.
#[test]
fn every_bug_has_a_patch_and_a_story() {
    let (patches, stories) = (texts("patches"), texts("tests/main"));
    for bug in PlantedBug::caught_by_checker(Checker::Shuttle) {
        assert!(patches.contains(&format!("planted(crate::PlantedBug::{bug:?})")), "{bug:?} has no patch");
        assert!(stories.contains(&format!("PlantedBug::{bug:?}")), "{bug:?} is in no story");
    }
    assert_eq!(patches.matches("planted(").count(), PlantedBug::caught_by_checker(Checker::Shuttle).count());
}

/// Returns the contents of all files in a folder of this crate.
fn texts(folder: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).expect("readable directory");
    files.map(|file| fs::read_to_string(file.expect("readable directory").path()).expect("text")).collect()
}

#[derive(Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Begins with few switches, which most bugs need.
    fn under_all(&self, seed: Seed, schedules: usize, failures: FailurePersistence, story: fn()) {
        let few_switches = PctScheduler::new_from_seed(seed.get(), DEPTH, schedules);
        let any = RandomScheduler::new_from_seed(seed.get(), schedules);
        self.under(few_switches, failures.clone(), story);
        self.under(any, failures, story);
    }

    fn under(&self, scheduler: impl Scheduler + 'static, failures: FailurePersistence, story: fn()) {
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        config.silence_warnings = true;
        config.failure_persistence = failures;
        let runs = self.0.clone();
        Runner::new(scheduler, config).run(move || {
            runs.fetch_add(1, Ordering::Relaxed);
            restart_time();
            story();
        });
    }
}
