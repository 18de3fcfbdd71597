//! Instances that come and go, by orders to processes that are killed before, during and after them.

mod fleet;
mod store;

use crate::fleet_node::long;
use fleet::Fleet;
use lock_testkit::Seed;
use lock_trials::{
    line::{Order, now},
    process::PATIENCE,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    thread::sleep,
    time::{Duration, Instant},
};
use store::Decided;

/// Returns the time of the server, whose clock is that of this machine, in milliseconds.
fn now_ms() -> u64 {
    now() / 1_000
}

/// The life of an instance. Times are in milliseconds since the epoch.
#[derive(Debug, Default)]
struct Life {
    /// The seconds of a minute that are its instants: `offset`, `offset + period`, …
    offset: u64,
    period: u64,
    /// The time before the first order to add it, and that after the last one was executed.
    ordered: u64,
    added: u64,
    /// The decisions about it at its end.
    decided: Decided,
    /// No instant after this time was started.
    ended: u64,
}

impl Life {
    fn schedule(&self) -> String {
        format!("{}-59/{} * * * * *", self.offset, self.period)
    }

    /// Returns the instants from the end of one second to that of another.
    fn instants(&self, after: u64, to: u64) -> impl Iterator<Item = u64> {
        let (offset, period) = (self.offset, self.period);
        (after / 1_000 + 1..=to / 1_000)
            .filter(move |second| second % period == offset)
            .map(|second| second * 1_000)
    }

    /// Asserts that each instant of its life was started, and no other. Returns the number of starts, and how many of
    /// them died with their process before the report.
    fn judge(&self, name: &str, started: &BTreeSet<u64>) -> (usize, usize) {
        let begun: BTreeSet<_> = started.union(&self.decided.unreported).copied().collect();
        for instant in self.instants(self.added, self.decided.up_to) {
            assert!(begun.contains(&instant), "{instant} of {name} was not started: {self:?}, {started:?}");
        }
        let possible: BTreeSet<_> = self.instants(self.ordered, self.ended).collect();
        assert!(begun.is_subset(&possible), "{name} was started outside of its life: {self:?}, {started:?}");
        (begun.len(), begun.difference(started).count())
    }
}

/// Returns the name of an instance of the nodes' kind.
fn kind(id: &str) -> String {
    format!("kind/{id}")
}

/// Asserts that the store has nothing of these instances.
fn assert_forgotten(everything: &[String], ids: &[String]) {
    for id in ids {
        let left: Vec<_> = everything.iter().filter(|text| text.contains(id)).collect();
        assert!(left.is_empty(), "of {id}, which was forgotten: {left:?}");
    }
}

#[test]
fn instances_run_at_each_instant_of_their_lives_while_nodes_die() {
    let (instances, period, pause) = if long() { (2_000, 20, 120) } else { (100, 2, 100) };
    let mut fleet = Fleet::start(4, Seed::of_this_run().stream());
    let (mut lives, mut once) = (BTreeMap::<String, Life>::new(), BTreeMap::<String, u64>::new());
    let (mut living, mut removed, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..instances {
        sleep(Duration::from_millis(pause / 2 + fleet.random.below(pause)));
        let id = format!("i{number:04}");
        let mut life = Life { offset: number % period, period, ordered: now_ms(), ..Life::default() };
        fleet.order(&Order::Add { id: id.clone(), schedule: life.schedule() });
        life.added = now_ms();
        lives.insert(id.clone(), life);
        living.push(id);
        if number % 4 == 0 {
            let (id, at) = (format!("o{number:04}"), now_ms() + fleet.random.below(3_000));
            fleet.order(&Order::Once { id: id.clone(), at: i64::try_from(at).expect("a time of our days") });
            once.insert(id, at);
        }
        if number % 2 == 1 {
            let at = usize::try_from(fleet.random.below(living.len() as u64)).expect("a short list");
            let id = living.swap_remove(at);
            let life = lives.get_mut(&id).expect("it was added");
            if number % 4 == 1 {
                end_by_forgetting(&mut fleet, &id, life);
                forgotten.push(id);
            } else {
                fleet.order(&Order::Remove { id: id.clone() });
                life.decided = store::decided(&fleet.server, &kind(&id));
                // The end of the decisions is exact, since nothing is decided after the removal.
                life.ended = life.decided.up_to;
                removed.push(id);
            }
        }
        if number % 8 == 5 {
            fleet.kill_one();
        }
    }
    assert_forgotten(&store::everything(&fleet.server), &forgotten);
    wait_until_decided(&fleet, &lives, &living, &once);
    for id in &living {
        end_by_forgetting(&mut fleet, id, lives.get_mut(id).expect("it was added"));
    }
    for id in removed.iter().chain(once.keys()) {
        fleet.order(&Order::Forget { id: id.clone() });
    }
    fleet.stop();
    assert_forgotten(&store::everything(&fleet.server), &["kind/".to_owned()]);

    let (mut runs, mut unreported) = (0, 0);
    for (id, life) in &lives {
        let (begun, died) = life.judge(id, &fleet.started(&kind(id)));
        (runs, unreported) = (runs + begun, unreported + died);
    }
    for (id, at) in &once {
        assert_eq!(fleet.started(&kind(id)), BTreeSet::from([*at]), "{id} runs once");
    }
    eprintln!(
        "{instances} instances, {} of them ended early, and {} that ran once; {} processes killed; {} orders without a \
         reply, {} of those to add were executed; {runs} instants started once, {unreported} without a report; no key left",
        lives.len() - living.len(),
        once.len(),
        fleet.killed(),
        fleet.unconfirmed,
        fleet.executed,
    );
}

fn end_by_forgetting(fleet: &mut Fleet, id: &str, life: &mut Life) {
    life.decided = store::decided(&fleet.server, &kind(id));
    fleet.order(&Order::Forget { id: id.to_owned() });
    life.ended = now_ms();
}

/// Waits until all instants up to now are decided, and their runs have ended.
fn wait_until_decided(
    fleet: &Fleet,
    lives: &BTreeMap<String, Life>,
    living: &[String],
    once: &BTreeMap<String, u64>,
) {
    let (now, begin) = (now_ms(), Instant::now());
    let names: Vec<_> = living.iter().map(|id| kind(id)).collect();
    // At the earliest, the last instant of a life is that of its beginning.
    let last = |id: &String| lives[id].instants(lives[id].added, now).last().unwrap_or_default();
    loop {
        let marks = store::marks(&fleet.server, &names);
        let behind = living.iter().zip(marks).filter(|(id, mark)| *mark < last(id)).count();
        let open = store::open(&fleet.server).into_values().flatten().filter(|run| *run <= now).count();
        let defined = store::defined(&fleet.server);
        let waiting = once.keys().filter(|id| defined.contains(&kind(id))).count();
        if (behind, open, waiting) == (0, 0, 0) {
            return;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "{behind} are behind, {open} are open, {waiting} have not run once"
        );
        sleep(Duration::from_millis(100));
    }
}
