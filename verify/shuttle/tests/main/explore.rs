//! How many schedules a story is told under, and that each bug that was planted in it is found.

use lock_explored::explored::{Plant, plant, restart_time};
use lock_testkit::Seed;
use shuttle::{
    Config, FailurePersistence, Runner,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

/// Of each kind of scheduler.
const SCHEDULES: usize = 2_500;

/// The switches of a PCT schedule that matter.
const DEPTH: usize = 3;

/// Tells the story under many schedules, in which it must come true; then with each of these bugs, under which it must not.
pub(crate) fn explore(story: fn(), plants: &[Plant]) {
    explore_some(SCHEDULES, story, plants);
}

/// The same under so many schedules of each kind: for stories that depend on them little, or say much.
pub(crate) fn explore_some(schedules: usize, story: fn(), plants: &[Plant]) {
    let times = if std::env::var_os("LOCK_LONG").is_some() { 20 } else { 1 };
    let begin = Instant::now();
    let told = Told::default();
    plant(None);
    told.under_all(Seed::of_this_run(), schedules * times, FailurePersistence::Print, story);
    eprintln!("{} schedules hold, in {:?}", told.count(), begin.elapsed());
    for &bug in plants {
        let told = Told::default();
        plant(Some(bug));
        // Always the same ones: what is found once is found again.
        let search = || told.under_all(Seed::new(1), schedules, FailurePersistence::None, story);
        let found = catch_unwind(AssertUnwindSafe(search));
        plant(None);
        assert!(found.is_err(), "{bug:?} was not found in {} schedules", told.count());
        eprintln!("{bug:?}: found in schedule {}", told.count());
    }
}

#[derive(Default)]
struct Told(Arc<AtomicUsize>);

impl Told {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Few switches first: most bugs need no more.
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
        let told = self.0.clone();
        Runner::new(scheduler, config).run(move || {
            told.fetch_add(1, Ordering::Relaxed);
            restart_time();
            story();
        });
    }
}
