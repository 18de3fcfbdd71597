//! The unmodified system keeps every promise, in every order of events that is tried.
//!
//! `LOCK_LONG=1` searches further, and with every pair of faults.

use crate::support::{Found, long, search, secs};
use lock_model::{Budget, Config, LockModel, Wait, Want, drain};
use stateright::Model;
use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

const A: Want = Want::of(1);
const B: Want = Want::of(2);
const NONE: Budget = Budget::NONE;

/// The kinds of faults, each on its own.
pub(crate) const KINDS: [(&str, Budget); 11] = [
    ("a lost message", Budget { lose: 1, ..NONE }),
    ("a slow message", Budget { delay: 1, ..NONE }),
    ("a request executed twice", Budget { duplicate: 1, ..NONE }),
    ("a lost wake-up", Budget { lose_wake: 1, ..NONE }),
    ("a restart without data", Budget { restart: 1, ..NONE }),
    ("a restart with old data", Budget { restore: 1, ..NONE }),
    ("an evicted lease", Budget { evict: 1, ..NONE }),
    ("a pause", Budget { pause: 1, ..NONE }),
    ("a dropped waiter", Budget { cancel: 1, ..NONE }),
    ("a clock that jumps", Budget { suspect: 1, ..NONE }),
    ("a shutdown", Budget { close: 1, ..NONE }),
];

fn holds(name: &str, config: &Config) -> Found {
    holds_for(name, config, 600_000)
}

fn holds_for(name: &str, config: &Config, most: usize) -> Found {
    let found = search(name, config, if long() { most * 8 } else { most });
    found.nothing(name, config);
    found
}

/// Doubles the horizon in long runs.
fn horizon(seconds: u64) -> Duration {
    secs(if long() { seconds * 2 } else { seconds })
}

#[test]
fn two_processes_and_each_fault() {
    let mut states = 0;
    for (name, faults) in KINDS {
        let config = Config::new(&[&[A], &[A]], horizon(17)).faults(faults);
        let found = holds(&format!("two, {name}"), &config);
        assert!(found.seen.contains(&"a lock is held"));
        states += found.states;
    }
    println!("two processes and each fault: {states} distinct states");
    assert!(states >= 1_000_000, "{states}");
}

#[test]
fn expected_states_are_reached() {
    let faults = Budget { evict: 1, ..NONE };
    let config = Config::new(&[&[A], &[A]], secs(13)).faults(faults);
    let found = holds("sometimes", &config);
    let hand_off = "a lease is handed off";
    assert_eq!(found.seen.len(), 3, "all but hand-offs and minimum holds: {:?}", found.seen);
    assert!(!found.seen.contains(&hand_off));
}

#[test]
fn several_faults_at_once() {
    let two = |faults| Config::new(&[&[A], &[A]], horizon(13)).faults(faults);
    holds("messages", &two(Budget { lose: 1, delay: 1, cancel: 1, ..NONE }));
    holds("twice, and a pause", &two(Budget { duplicate: 1, pause: 1, ..NONE }));
    holds("pauses", &two(Budget { pause: 2, cancel: 1, ..NONE }));
    holds("data", &two(Budget { restart: 1, restore: 1, evict: 1, ..NONE }));
    holds("data and messages", &two(Budget { restore: 1, lose: 1, delay: 1, ..NONE }));
    holds("wake-ups", &two(Budget { lose_wake: 2, delay: 1, ..NONE }));
    holds("a shutdown and a lost message", &two(Budget { lose: 1, close: 1, ..NONE }));
}

#[test]
fn three_processes() {
    let three = |faults| Config::new(&[&[A], &[A], &[A]], horizon(13)).faults(faults);
    holds("three", &three(NONE));
    holds("three, and a wake-up is lost", &three(Budget { lose_wake: 1, cancel: 1, ..NONE }));
    holds("three, and data is lost", &three(Budget { restart: 1, pause: 1, ..NONE }));
}

#[test]
fn waiters_of_one_process() {
    let lines = |faults| Config::new(&[&[A, B], &[A]], horizon(13)).faults(faults);
    holds("a queue", &lines(Budget { lose: 1, ..NONE }));
    holds("a queue with a dropped waiter", &lines(Budget { cancel: 2, ..NONE }));
    let waits: [&[Want]; 2] =
        [&[A.wait(Wait::Once), B.wait(Wait::For(secs(2)))], &[A.wait(Wait::For(secs(4))).by_hand()]];
    holds("limited waits", &Config::new(&waits, horizon(13)).faults(Budget { lose: 1, ..NONE }));
}

#[test]
fn reentry() {
    let faults = Budget { lose: 1, delay: 1, cancel: 1, ..NONE };
    holds("three guards", &Config::new(&[&[A, A, A]], horizon(13)).faults(faults));
    let faults = Budget { pause: 1, evict: 1, ..NONE };
    let inner = Want::short(1).by_hand();
    holds("two guards against another", &Config::new(&[&[A, inner], &[A]], horizon(13)).faults(faults));
    let fixed = Want::fixed(1);
    holds("a fixed lease, re-entered", &Config::new(&[&[fixed, A], &[fixed]], horizon(13)).faults(faults));
    let every = Budget { lose: 1, delay: 1, evict: 1, restart: 1, pause: 1, cancel: 1, close: 1, ..NONE };
    holds("two guards and every fault", &Config::new(&[&[A, A]], horizon(13)).faults(every));
}

/// Three waiters of one process with up to two hand-offs, against another process: faults in the middle of a chain,
/// including a process that is suspended.
#[test]
fn hand_off_and_each_fault() {
    let (a, b, c) = (A.passing(2), B.passing(2).by_hand(), Want::of(3).passing(2));
    for (name, faults) in KINDS {
        let config =
            Config { used_before: true, ..Config::new(&[&[a, b, c], &[A]], horizon(6)).faults(faults) };
        let found = holds_for(&format!("a chain, {name}"), &config, 150_000);
        assert!(found.seen.contains(&"a lease is handed off"), "{name}");
    }
    let both = Config::new(&[&[a, b], &[a, b]], horizon(6)).faults(Budget { pause: 1, ..NONE });
    holds_for("two chains and a pause", &Config { used_before: true, ..both }, 150_000);
}

/// A hold that its owner re-enters with a longer lease, and a waiter that would inherit it.
#[test]
fn extended_lease_and_each_fault() {
    let (a, b) = (Want::short(1).passing(2), Want::short(2).passing(2));
    for (name, faults) in KINDS {
        let config =
            Config { used_before: true, ..Config::new(&[&[a, A, b], &[A]], horizon(6)).faults(faults) };
        holds_for(&format!("an extended lease, {name}"), &config, 60_000);
    }
}

/// The name stays taken until the minimum is over, with a waiter in the same process and another in a second one.
#[test]
fn minimum_hold_and_each_fault() {
    let (a, b) = (Want::short(1).at_least(secs(2)), Want::short(2).at_least(secs(2)).by_hand());
    for (name, faults) in KINDS {
        let config = Config::new(&[&[a, b], &[a]], horizon(6)).faults(faults);
        let found = holds_for(&format!("a minimum, {name}"), &config, 60_000);
        assert!(found.seen.contains(&"a name is kept after its release"), "{name}");
    }
}

#[test]
fn releases_by_hand() {
    let by_hand: [&[Want]; 2] = [&[A.by_hand(), A.by_hand()], &[A.by_hand()]];
    holds("by hand", &Config::new(&by_hand, horizon(13)).faults(Budget { lose: 1, ..NONE }));
    // First the hold is lost, then the reply to its release: the release must not report that the hold was valid.
    let once: [&[Want]; 2] = [&[A.by_hand()], &[A]];
    let twice_unlucky = Budget { lose: 1, evict: 1, ..NONE };
    holds("by hand, evicted", &Config::new(&once, horizon(13)).faults(twice_unlucky));
}

#[test]
fn clocks_of_different_speed_and_a_wrong_estimate() {
    let faults = Budget { delay: 1, pause: 1, ..NONE };
    for wrong_estimate in [-1_500_000, 1_500_000] {
        let mut config = Config::new(&[&[A], &[A]], horizon(13)).faults(faults);
        config.slow_clock = 15_000;
        config.wrong_estimate = wrong_estimate;
        holds(&format!("a slow clock, wrong by {wrong_estimate} µs"), &config);
    }
}

/// The limits on waits are only meaningful if some waits nearly reach them: 5 s, the time between two attempts, and 12
/// s if a lease was restored with old data.
#[test]
#[allow(clippy::mutable_key_type)] // the cached end of a state is not part of it
fn limits_on_waits_are_nearly_reached() {
    let lost = Budget { lose_wake: 1, pause: 1, ..NONE };
    let old = Budget { restore: 1, ..NONE };
    for (name, faults, least) in [("a lost wake-up", lost, 1), ("old data", old, 6)] {
        let model = LockModel::new(Config::new(&[&[A], &[A]], secs(13)).faults(faults));
        let mut known = HashSet::new();
        let mut next = VecDeque::from(model.init_states());
        let mut longest = Duration::ZERO;
        while let Some(world) = next.pop_front().filter(|_| known.len() < 30_000) {
            longest = longest.max(drain(&model.config, &world, false).waited);
            for (_, world) in model.next_steps(&world) {
                if known.insert(world.clone()) {
                    next.push_back(world);
                }
            }
        }
        println!("after {name}, the longest wait is {longest:?}");
        assert!(longest >= secs(least), "{name}: {longest:?}");
    }
}

/// A copy excludes its original, wherever it is made: before, between and during the waits of the process.
#[test]
fn copies_exclude_each_other() {
    let copied = |scripts: &[&[Want]]| Config::new(scripts, horizon(13)).copied();
    holds_for("a copy", &copied(&[&[A], &[A]]), 300_000);
    holds_for("a copy of a process with two waiters", &copied(&[&[A, B], &[A]]), 150_000);
    let mut cancelled = copied(&[&[A.by_hand(), A]]);
    cancelled.budget.cancel = 1;
    holds_for("a copy, and a dropped waiter", &cancelled, 150_000);
}

#[test]
fn every_pair_of_faults() {
    if !long() {
        return;
    }
    for (at, (one, first)) in KINDS.iter().enumerate() {
        for (other, second) in &KINDS[at..] {
            let config = Config::new(&[&[A], &[A]], secs(13)).faults(first.and(second));
            holds_for(&format!("{one} and {other}"), &config, 1_000_000);
        }
    }
}
