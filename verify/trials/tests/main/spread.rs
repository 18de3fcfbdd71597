//! Runs on five nodes: their shares, catch-ups beside on-time runs, kills, and the limits of nodes and of a pool.

use crate::{
    fleet::{Attempt, Fleet, Number},
    fleet_node::long,
    life::{Life, kind, now_ms, wait_until_decided},
    place::Place,
};
use lock_testkit::Seed;
use lock_trials::line::Order;
use std::{
    collections::{BTreeMap, BTreeSet},
    thread::sleep,
    time::Duration,
};

const NODES: usize = 5;

/// The lateness from which a run may have started on a node other than the first. The leader, which is next, leaves a
/// run to its node for this time.
const PATIENCE_US: u64 = 500_000;

/// Adds instances with one schedule to a fleet.
pub(crate) fn add(fleet: &mut Fleet, instances: u64, period: u64) -> BTreeMap<String, Life> {
    let add = |number| {
        let mut life = Life { offset: 0, period, ordered: now_ms(), ..Life::default() };
        let id = format!("i{number:02}");
        fleet.order(&Order::Add { id: id.clone(), schedule: life.schedule() });
        life.added = now_ms();
        (id, life)
    };
    (0..instances).map(add).collect()
}

/// Stops the fleet once all instants up to now are decided, and reads the decisions.
pub(crate) fn end(fleet: &mut Fleet, lives: &mut BTreeMap<String, Life>) {
    let living: Vec<_> = lives.keys().cloned().collect();
    wait_until_decided(fleet, lives, &living, &BTreeMap::new());
    fleet.stop();
    for (id, life) in lives {
        life.decided = fleet.place.decided(&kind(id));
        life.ended = now_ms();
    }
}

/// Returns the maximum number of spans that share one moment. A span that ends when another begins does not overlap it.
fn most_at_once(spans: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut steps: Vec<_> = spans.flat_map(|(from, to)| [(from, true), (to, false)]).collect();
    steps.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, begins) in steps {
        now = if begins { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    most
}

#[test]
fn spans_that_overlap_are_counted() {
    assert_eq!(most_at_once([].into_iter()), 0);
    assert_eq!(most_at_once([(1, 2), (2, 3), (3, 4)].into_iter()), 1);
    assert_eq!(most_at_once([(1, 9), (2, 3), (2, 4), (5, 6)].into_iter()), 3);
}

#[test]
fn runs_are_spread_over_all_nodes_and_none_is_lost() {
    const INSTANCES: u64 = 10;
    let (idle, after) = if long() { (101, 20) } else { (6, 4) };
    let mut fleet =
        Fleet::start(Place::redis(), NODES, &["--catch-up", "1000"], Seed::of_this_run().stream());
    let mut lives = add(&mut fleet, INSTANCES, 1);
    fleet.wait_until_all_run();
    let from = now_ms();
    sleep(Duration::from_secs(idle));
    let to = now_ms();
    fleet.kill_one();
    sleep(Duration::from_secs(after));
    fleet.stop();
    let missed_from = now_ms();
    sleep(Duration::from_millis(5_100));
    let missed_to = now_ms();
    fleet.start_more(NODES);
    sleep(Duration::from_secs(after));
    end(&mut fleet, &mut lives);

    let (mut runs, mut unreported) = (0, 0);
    for (id, life) in &lives {
        let (begun, died) = life.judge(&kind(id), &fleet.started(&kind(id)));
        (runs, unreported) = (runs + begun, unreported + died);
    }
    let again = fleet.attempts().filter(|(_, number, _)| *number > 1).count();
    assert_eq!(again, 0, "the orphan policy excludes further attempts");
    let is_in = |run: u64, from: u64, to: u64| (from..to).contains(&run);
    let caught_up = fleet.attempts().filter(|(run, ..)| is_in(*run, missed_from, missed_to)).count() as u64;
    assert!(caught_up >= 5 * INSTANCES, "{caught_up}");
    let counted = fleet.attempts().filter(|(run, ..)| is_in(*run, from, to));
    let counted: Vec<_> = counted.map(|(run, _, attempt)| (run, attempt)).collect();
    let mut shares = BTreeMap::<Number, usize>::new();
    counted.iter().for_each(|(_, attempt)| *shares.entry(attempt.by).or_default() += 1);
    let late = |(run, attempt): &&(u64, &Attempt)| attempt.began.saturating_sub(run * 1_000) >= PATIENCE_US;
    let (all, late) = (counted.len(), counted.iter().filter(late).count());
    assert_eq!(shares.len(), NODES, "{shares:?}");
    let shares: Vec<_> = shares.values().map(|runs| 100.0 * *runs as f64 / all as f64).collect();
    if long() {
        assert!(all >= 1_000, "{all} runs");
        assert!(shares.iter().all(|share| (12.0..=30.0).contains(share)), "{shares:.1?} %");
        assert!(late * 20 <= all, "{late} of {all} runs were not started by their first node");
    }
    let (first, begun) = (100.0 * (all - late) as f64 / all as f64, runs - unreported);
    eprintln!(
        "| {NODES} idle nodes, `Placement::Spread` | {all} | 12 to 30 % on each; 95 % on their first node | {shares:.1?} %; \
         {first:.1} % |\n\
         | an outage of five instants of {INSTANCES} jobs, `kill -9` of a node | {runs}, {caught_up} of them missed | each \
         instant starts once | 0 lost, 0 repeated ({begun} starts reported) |",
    );
}

const MAX_RUNNING: usize = 2;
const POOL: usize = 7;

/// Kills nodes while their runs fill the nodes and the pool. Returns the number of runs.
fn assert_limits_hold(words: &'static [&'static str], most_attempts: u64) {
    // All are due at once every three seconds: more runs than the nodes or the pool take, and than finish within the
    // grace.
    const INSTANCES: u64 = 24;
    const PERIOD: u64 = 3;
    let (rounds, kills) = if long() { (42, 12) } else { (3, 1) };
    let mut fleet = Fleet::start(Place::redis(), NODES, words, Seed::of_this_run().stream());
    let mut lives = add(&mut fleet, INSTANCES, PERIOD);
    for kill in 0..=kills {
        let pause = 1_000 * PERIOD * rounds / (kills + 1);
        sleep(Duration::from_millis(pause / 2 + fleet.random.below(pause)));
        if kill < kills {
            fleet.kill_one();
        }
    }
    end(&mut fleet, &mut lives);

    let mut started = BTreeSet::new();
    for id in lives.keys() {
        started.extend(fleet.started(&kind(id)).into_iter().map(|run| (id, run)));
    }
    let mut of_node = BTreeMap::<Number, Vec<(u64, u64)>>::new();
    let mut all = Vec::new();
    for (_, number, attempt) in fleet.attempts() {
        assert!(number <= most_attempts, "attempt {number}: {attempt:?}");
        let span = (attempt.began, fleet.end_of(attempt));
        of_node.entry(attempt.by).or_default().push(span);
        all.push(span);
    }
    let of_node = of_node.into_values().map(|spans| most_at_once(spans.into_iter())).max().unwrap_or(0);
    let of_fleet = most_at_once(all.iter().copied());
    assert_eq!((of_node, of_fleet), (MAX_RUNNING, POOL), "the limits are reached and never exceeded");
    let again = all.len() - started.len();
    assert!(!long() || again > 0 || most_attempts == 1, "a killed node had open runs");
    eprintln!(
        "| `kill -9` of {} nodes, `OnOrphan` with {most_attempts} attempts | {} | at most {MAX_RUNNING} on a node, {POOL} in \
         the pool | {of_node} and {of_fleet}; {again} runs of killed nodes started again |",
        fleet.killed(),
        started.len(),
    );
}

#[test]
fn limits_hold_while_nodes_die() {
    assert_limits_hold(&["--takes", "600", "--max-running", "2", "--pool", "7"], 1);
}

#[test]
fn limits_hold_while_runs_of_dead_nodes_start_again() {
    assert_limits_hold(&["--takes", "600", "--max-running", "2", "--pool", "7", "--adopt", "1"], 2);
}
