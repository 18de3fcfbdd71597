//! Instances that come and go, by orders to processes that are killed before, during and after the orders.

use crate::{
    fleet::Fleet,
    fleet_node::long,
    life::{Life, kind, now_ms, wait_until_decided},
    place::Place,
    store,
};
use lock_testkit::Seed;
use lock_trials::line::Order;
use std::{
    collections::{BTreeMap, BTreeSet},
    thread::sleep,
    time::Duration,
};

/// All missed instants are caught up, even while runs of killed nodes are open. Those runs are started again.
const WORDS: [&str; 4] = ["--catch-up", "1000", "--adopt", "50"];

/// Asserts that the store has no data of these instances.
fn assert_forgotten(everything: &[String], ids: &[String]) {
    for id in ids {
        let left: Vec<_> = everything.iter().filter(|text| text.contains(id)).collect();
        assert!(left.is_empty(), "data of the forgotten instance {id} is left: {left:?}");
    }
}

#[test]
fn instances_run_at_each_instant_of_their_lives_while_nodes_die() {
    let (instances, period, pause) = if long() { (2_000, 20, 120) } else { (100, 2, 100) };
    let mut fleet = Fleet::start(Place::redis(), 4, &WORDS, Seed::of_this_run().stream());
    let (mut lives, mut once) = (BTreeMap::<String, Life>::new(), BTreeMap::<String, u64>::new());
    let (mut living, mut removed, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..instances {
        sleep(Duration::from_millis(pause / 2 + fleet.random.below(pause)));
        let id = format!("i{number:04}");
        let mut life = Life { offset: number % period, period, ordered: now_ms(), ..Life::default() };
        fleet.order_among_kills(&Order::Add { id: id.clone(), schedule: life.schedule() });
        life.added = now_ms();
        lives.insert(id.clone(), life);
        living.push(id);
        if number % 4 == 0 {
            let (id, at) = (format!("o{number:04}"), now_ms() + fleet.random.below(3_000));
            fleet.order_among_kills(&Order::Once { id: id.clone(), at });
            once.insert(id, at);
        }
        if number % 2 == 1 {
            let at = usize::try_from(fleet.random.below(living.len() as u64)).expect("a short list");
            let id = living.swap_remove(at);
            let life = lives.get_mut(&id).expect("added");
            if number % 4 == 1 {
                end_by_forgetting(&mut fleet, &id, life);
                forgotten.push(id);
            } else {
                fleet.order_among_kills(&Order::Remove { id: id.clone() });
                life.decided = fleet.place.decided(&kind(&id));
                // The end of the decisions is exact, since nothing is decided after the removal.
                life.ended = life.decided.up_to;
                removed.push(id);
            }
        }
        if number % 8 == 5 {
            fleet.kill_one();
        }
    }
    assert_forgotten(&store::everything(fleet.place.server()), &forgotten);
    wait_until_decided(&fleet, &lives, &living, &once);
    for id in &living {
        end_by_forgetting(&mut fleet, id, lives.get_mut(id).expect("added"));
    }
    for id in removed.iter().chain(once.keys()) {
        fleet.order_among_kills(&Order::Forget { id: id.clone() });
    }
    fleet.stop();
    // The description of the kind remains.
    let all: Vec<_> = lives.keys().chain(once.keys()).map(|id| kind(id)).collect();
    assert_forgotten(&store::everything(fleet.place.server()), &all);

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
    life.decided = fleet.place.decided(&kind(id));
    fleet.order_among_kills(&Order::Forget { id: id.to_owned() });
    life.ended = now_ms();
}
