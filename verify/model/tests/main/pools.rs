//! Semaphores, read-write locks and fair locks keep every promise, in every order of events that is tried, and each
//! planted bug of a pool is found by the promise that it breaks.

use crate::{
    correct::KINDS,
    planted::finds_within,
    support::{Found, long, search, secs},
};
use lock_core::{
    backend::Share,
    model::{Keep, TermValues},
};
use lock_model::{Budget, Config, Law, Wait, Want};
use lock_testkit::planted::PlantedBug::{self, *};
use std::time::Duration;

const NONE: Budget = Budget::NONE;
const DEATH: (&str, Budget) = ("a death", Budget { die: 1, ..NONE });

/// A fair lock.
const FAIR: Want = Want::permit(1, 1);
/// Permits of a semaphore of two.
const ONE: Want = Want::permit(1, 2);
const BOTH: Want = Want::permit(2, 2);
const READER: Want = Want::permit(1, Share::MAX_LIMIT);
const WRITER: Want = Want::permit(Share::MAX_LIMIT, Share::MAX_LIMIT).lowering();

/// Searches up to this many states, in long runs eight times as many, for twice the time.
fn holds(name: &str, scripts: &[&[Want]], faults: Budget, most: usize) -> Found {
    holds_in(name, &pool(scripts, faults), most)
}

fn holds_in(name: &str, config: &Config, most: usize) -> Found {
    let config =
        if long() { Config { horizon: config.horizon * 2, ..config.clone() } } else { config.clone() };
    let found = search(name, &config, if long() { most * 8 } else { most });
    found.nothing(name, &config);
    found
}

/// A search in which a lease of 4 s and a patience of 6 s can end.
fn pool(scripts: &[&[Want]], faults: Budget) -> Config {
    Config::new(scripts, secs(9)).faults(faults)
}

#[test]
fn fair_lock_and_each_fault() {
    for (name, faults) in KINDS.iter().chain([&DEATH]) {
        let found = holds(&format!("a fair lock, {name}"), &[&[FAIR], &[FAIR]], *faults, 40_000);
        assert!(found.seen.contains(&"a waiter has a place in the store"), "{name}");
    }
}

#[test]
fn semaphore_and_each_fault() {
    for (name, faults) in KINDS.iter().chain([&DEATH]) {
        let found = holds(&format!("a semaphore, {name}"), &[&[ONE], &[BOTH], &[ONE]], *faults, 40_000);
        assert!(found.seen.contains(&"a waiter has a place in the store"), "{name}");
        assert!(found.seen.contains(&"permits are held side by side"), "{name}");
    }
}

#[test]
fn read_write_lock_and_each_fault() {
    for (name, faults) in KINDS.iter().chain([&DEATH]) {
        let found =
            holds(&format!("a read-write lock, {name}"), &[&[WRITER], &[READER], &[WRITER]], *faults, 40_000);
        assert!(found.seen.contains(&"permits are held side by side"), "{name}");
    }
}

#[test]
fn waiters_of_one_process_have_places() {
    let queue: [&[Want]; 2] = [&[ONE, BOTH.by_hand()], &[ONE]];
    for (name, faults) in KINDS.iter().chain([&DEATH]) {
        holds(&format!("two waiters, {name}"), &queue, *faults, 40_000);
    }
    let waits: [&[Want]; 3] = [&[FAIR.wait(Wait::Once)], &[FAIR.wait(Wait::For(secs(2)))], &[FAIR]];
    holds("limited waits of permits", &waits, Budget { lose: 1, ..NONE }, 40_000);
}

#[test]
fn pool_and_several_faults() {
    let two: [&[Want]; 2] = [&[FAIR], &[FAIR.by_hand()]];
    holds("a slow message, a dropped waiter", &two, Budget { delay: 1, cancel: 1, ..NONE }, 40_000);
    holds("two slow messages", &two, Budget { delay: 2, ..NONE }, 40_000);
    holds("a lost message, a death", &two, Budget { lose: 1, die: 1, ..NONE }, 40_000);
    holds("a request twice, a dropped waiter", &two, Budget { duplicate: 1, cancel: 1, ..NONE }, 40_000);
    for wrong_estimate in [-1_500_000, 1_500_000] {
        let faults = Budget { delay: 1, pause: 1, ..NONE };
        let config = Config { slow_clock: 15_000, wrong_estimate, ..pool(&two, faults) };
        holds_in(&format!("permits, a slow clock, wrong by {wrong_estimate} µs"), &config, 40_000);
    }
    let limits: [&[Want]; 3] = [&[Want::permit(1, 3)], &[BOTH], &[Want::permit(1, 3)]];
    holds("two limits", &limits, Budget { cancel: 1, ..NONE }, 40_000);
}

/// A place lasts longer than a short lease, so it is given up for longer.
#[test]
fn place_outlasts_a_short_lease() {
    let keep = Keep::Renewed { every: Duration::from_millis(300) };
    let brief = Want { terms: TermValues { lease: secs(1), keep, ..FAIR.terms }, ..FAIR };
    let long = Want { terms: Want::of(1).terms, ..FAIR };
    let faults = Budget { lose: 1, delay: 1, cancel: 1, ..NONE };
    holds("a short lease", &[&[long], &[brief]], faults, 40_000);
}

/// Copies of a waiter share its place, which is granted to one of them.
#[test]
fn copies_share_a_place() {
    holds_in("a copy of a waiter", &pool(&[&[FAIR], &[FAIR]], NONE).copied(), 40_000);
    let cancelled = pool(&[&[ONE], &[BOTH]], Budget { cancel: 1, ..NONE }).copied();
    holds_in("a copy of a waiter, and a dropped waiter", &cancelled, 40_000);
}

/// Other tests search the same without a bug.
fn finds(bug: PlantedBug, config: Config, laws: &[Law]) {
    finds_within(40_000, bug, config, laws);
}

macro_rules! found {
    ($($test:ident: $bug:ident in $config:expr, by $($law:ident)|+;)*) => {
        $(
            #[test]
            fn $test() {
                finds($bug, $config, &[$(Law::$law),+]);
            }
        )*

        pub(crate) const FOUND: &[PlantedBug] = &[$($bug),*];
    };
}

/// Two processes that wait for each other's permit.
fn two(faults: Budget) -> Config {
    pool(&[&[FAIR], &[FAIR]], faults)
}

found! {
    overtaking_newcomer: Overtakes in pool(&[&[ONE], &[BOTH], &[ONE]], NONE), by QueueOrder;
    dead_waiter_that_is_kept: KeepsDeadWaiters in pool(&[&[ONE], &[BOTH], &[BOTH]], DEATH.1), by NoDeadWait | BoundedWait;
    place_that_is_kept: KeepsPlaces in two(Budget { cancel: 1, ..NONE }), by NoOrphan;
    grant_without_request: GrantsUnasked in
        Config { only: Some(Law::Deadline), ..two(Budget { delay: 1, ..NONE }) }, by Deadline;
    undo_that_ends_early: EndsUndoEarly in two(Budget { delay: 1, cancel: 1, ..NONE }), by NoOrphan;
}

/// Bugs that are found in searches of locks as well.
#[test]
fn bugs_of_locks_are_found_in_pools() {
    let slow = two(Budget { delay: 1, cancel: 1, ..NONE });
    finds(IgnoresNotAfter, slow.clone(), &[Law::NoOrphan]);
    finds(DeadlineFromReply, slow, &[Law::Deadline]);
    finds(DrawsIdsAhead, two(NONE).copied(), &[Law::Exclusion]);
}
