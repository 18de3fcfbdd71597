//! Known limitations: promises that are broken outside the guarantees, each documented where it belongs. If a test here
//! fails because nothing is found any more, delete it.

use crate::support::{search, secs, shortest};
use lock_model::{Budget, Config, Law, Want, tell};

const A: Want = Want::of(1);

fn breaks(name: &str, config: &Config, law: Law) {
    let (found, path) = shortest(config, 3_000_000).unwrap_or_else(|| panic!("{name}: nothing was found"));
    let (steps, text) = tell(config, path);
    println!("{name}: {found}, after {steps} steps:\n{text}");
    assert_eq!(found, law.name());
}

/// The contract of a backend forbids this: an acquire that is executed again after it was answered and released creates
/// a lease that no process knows.
#[test]
fn resent_answered_acquire_leaves_an_orphan() {
    let mut config = Config::new(&[&[A]], secs(13)).faults(Budget { duplicate: 1, ..Budget::NONE });
    search("without resends", &config, 300_000).nothing("without resends", &config);
    config.resends_answered = true;
    breaks("a resent acquire", &config, Law::NoOrphan);
}

/// A waiter counts the remaining time of another lease from the moment it receives the answer. If it was suspended in
/// between, it sleeps past the end of that lease, by at most the longest wait, as after a lost wake-up. This only
/// happens without a release that announces the free lock: here, the holder is suspended as well.
#[test]
fn late_busy_answer_oversleeps_the_lease() {
    let mut config = Config::new(&[&[A], &[A]], secs(13)).faults(Budget { pause: 2, ..Budget::NONE });
    search("what is promised", &config, 300_000).nothing("what is promised", &config);
    config.punctual = true;
    breaks("a late busy answer", &config, Law::NoDeadWait);
}

/// A wake-up lets the first waiter of a process ask. If the store has another order, because the requests of the waiters
/// overtook one another, the waiter that fits sleeps until it asks to keep its place, at most a third of its patience.
#[test]
fn reordered_waiter_oversleeps_a_free_permit() {
    let (one, both) = (Want::permit(1, 2), Want::permit(2, 2));
    let mut config = Config::new(&[&[one, both], &[one]], secs(3));
    search("what is promised", &config, 300_000).nothing("what is promised", &config);
    config.punctual = true;
    breaks("a reordered waiter", &config, Law::NoDeadWait);
}

/// The margin is 2 % here. The search shows that the assumption about clocks is necessary.
#[test]
fn clock_slower_than_the_margin_outlives_the_lease() {
    let mut config = Config::new(&[&[A]], secs(13));
    config.slow_clock = 15_000;
    search("within the margin", &config, 300_000).nothing("within the margin", &config);
    config.slow_clock = 30_000;
    breaks("a slow clock", &config, Law::Deadline);
}
