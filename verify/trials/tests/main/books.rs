//! The books of a fleet under faults: each due instant of each job is started, or counted in exactly one skip.

use crate::{
    fleet::Fleet,
    fleet_node::long,
    life::kind,
    place::Place,
    spread::{add, end},
};
use lock_testkit::Seed;
use std::{thread::sleep, time::Duration};

fn assert_books_balance(place: Place, words: &'static [&'static str]) {
    const INSTANCES: u64 = 6;
    const PERIOD: u64 = 2;
    let faults = if long() { 36 } else { 3 };
    let mut fleet = Fleet::start(place, 3, words, Seed::of_this_run().stream());
    let mut lives = add(&mut fleet, INSTANCES, PERIOD);
    let mut outages = 0;
    for _ in 0..faults {
        sleep(Duration::from_millis(500 + fleet.random.below(1_500)));
        let time = Duration::from_millis(500 + fleet.random.below(5_000));
        match fleet.random.below(3) {
            0 => fleet.kill_one(),
            1 => fleet.pause_one(time),
            _ if fleet.place.fail_for(time) => outages += 1,
            _ => fleet.kill_one(),
        }
    }
    end(&mut fleet, &mut lives);

    let (mut runs, mut skips) = (0, 0);
    for (id, life) in &lives {
        let started = fleet.started(&kind(id));
        let begun = started.union(&life.decided.unreported).count();
        let due = |after| life.instants(after, life.decided.up_to).count();
        // An instant during the order to add the job may belong to its life.
        let possible = due(life.added)..=due(life.ordered);
        let counted = begun + life.decided.skipped;
        assert!(
            possible.contains(&counted),
            "{id}: {possible:?} instants, {begun} started: {life:?}, {started:?}"
        );
        (runs, skips) = (runs + begun, skips + life.decided.skipped);
    }
    eprintln!(
        "{words:?}: {runs} instants started, {skips} skipped, none in no record; {faults} faults, {} processes killed, \
         {outages} outages",
        fleet.killed(),
    );
}

#[test]
fn each_instant_is_started_or_counted_once_when_runs_are_skipped() {
    assert_books_balance(Place::redis(), &["--takes", "300"]);
}

#[test]
fn each_instant_is_started_or_counted_once_when_runs_are_caught_up() {
    assert_books_balance(Place::redis(), &["--takes", "5000", "--catch-up", "3"]);
}

#[test]
fn each_instant_is_started_or_counted_once_on_postgres() {
    assert_books_balance(Place::postgres(), &["--takes", "300"]);
}

#[test]
fn each_instant_is_started_or_counted_once_when_runs_are_caught_up_on_postgres() {
    assert_books_balance(Place::postgres(), &["--takes", "5000", "--catch-up", "3"]);
}

#[test]
fn each_instant_is_started_or_counted_once_in_a_file() {
    assert_books_balance(Place::file(), &["--takes", "300"]);
}
