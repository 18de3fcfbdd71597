//! Long random walks with far more faults than can be searched, for problems that occur late and need many faults.

use crate::support::{long, secs};
use lock_model::{Act, Body, Budget, Config, LockModel, Wait, Want, World, tell};
use stateright::{Checker, Chooser, HasDiscoveries, Model};
use std::time::Instant;

/// Prefers steps that must happen, then those of applications, then faults.
#[derive(Clone)]
struct Biased;

fn weight(act: &Act) -> u64 {
    match act {
        Act::Execute(message) | Act::Deliver(message) if message.slow => 4,
        Act::Execute(_) | Act::Deliver(_) | Act::TimeOut(_) | Act::Tick(_) => 60,
        Act::Advance => 60,
        Act::Resume(_) => 6,
        Act::Enter(_) => 6,
        Act::Drop(..) => 4,
        Act::Lose(message) if message.body == Body::Wake => 10,
        Act::Lose(_) | Act::Delay(_) | Act::Duplicate(_) => 4,
        _ => 1,
    }
}

impl Chooser<LockModel> for Biased {
    type State = fastrand::Rng;

    fn new_state(&self, seed: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(seed)
    }

    fn choose_initial_state(&self, _: &mut fastrand::Rng, _: &[World]) -> usize {
        0
    }

    fn choose_action(&self, random: &mut fastrand::Rng, _: &World, acts: &[Act]) -> usize {
        // There is at least one action, and each has a weight.
        let mut left = random.u64(..acts.iter().map(weight).sum::<u64>());
        for (at, act) in acts.iter().enumerate() {
            match left.checked_sub(weight(act)) {
                Some(rest) => left = rest,
                None => return at,
            }
        }
        0
    }
}

fn walk(name: &str, config: Config, most: usize) {
    let seed = std::env::var("LOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_120);
    let begun = Instant::now();
    let most = if long() { most * 25 } else { most };
    let checker = LockModel::new(config.clone())
        .checker()
        .threads(2)
        .target_state_count(most)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_simulation(seed, Biased)
        .join();
    let (states, depth, took) = (checker.state_count(), checker.max_depth(), begun.elapsed().as_secs_f64());
    println!("{name}: {states} states on random walks of up to {depth} steps, seed {seed}, {took:.1} s");
    for (what, path) in checker.discoveries() {
        if what.starts_with('I') {
            let (steps, text) = tell(&config, path.into_vec());
            panic!("{name} breaks {what} after {steps} steps (LOCK_SEED={seed}):\n{text}");
        }
    }
}

const A: Want = Want::of(1);
const B: Want = Want::of(2);
/// 4 s, taken for at least 2 s.
const KEPT: Want = Want::short(1).at_least(secs(2));

#[test]
fn three_processes_and_every_fault() {
    let faults = Budget {
        lose: 4,
        delay: 4,
        duplicate: 2,
        lose_wake: 2,
        restart: 1,
        restore: 1,
        evict: 1,
        pause: 3,
        cancel: 2,
        suspect: 1,
        close: 0,
        copy: 0,
        die: 0,
    };
    let scripts: [&[Want]; 3] = [&[A, KEPT, B, A.by_hand()], &[A.by_hand(), B, A], &[Want::fixed(1), A]];
    walk("walks, every fault", Config::new(&scripts, secs(90)).faults(faults), 1_500_000);
}

#[test]
fn every_fault_except_lost_data() {
    let faults =
        Budget { lose: 6, delay: 6, duplicate: 2, lose_wake: 3, pause: 4, cancel: 3, ..Budget::NONE };
    let scripts: [&[Want]; 2] = [
        &[A, A, B.wait(Wait::For(secs(7))), A.by_hand(), Want::short(2), B.wait(Wait::Once)],
        &[A.by_hand(), KEPT, Want::fixed(2), B, A.wait(Wait::For(secs(12)))],
    ];
    let mut config = Config::new(&scripts, secs(120)).faults(Budget { close: 1, ..faults });
    config.slow_clock = 15_000;
    config.wrong_estimate = -1_500_000;
    walk("walks, data is kept", config, 1_500_000);
}

/// A process is copied, another dies, and permits of several weights are held at once.
#[test]
fn permits_and_every_fault() {
    let faults = Budget {
        lose: 4,
        delay: 4,
        duplicate: 2,
        lose_wake: 2,
        restart: 0,
        restore: 0,
        evict: 1,
        pause: 3,
        cancel: 2,
        suspect: 1,
        close: 0,
        copy: 0,
        die: 1,
    };
    let (one, two) = (Want::permit(1, 3), Want::permit(2, 3));
    let scripts: [&[Want]; 3] = [
        &[one, two.by_hand(), one.wait(Wait::For(secs(7))), one],
        &[two, one, Want::permit(3, 3).lowering(), one.wait(Wait::Once)],
        &[one.by_hand(), two],
    ];
    walk("walks, permits", Config::new(&scripts, secs(60)).faults(faults), 400_000);
    let copied = Budget { lose: 3, delay: 3, duplicate: 1, pause: 2, cancel: 2, ..Budget::NONE };
    let scripts: [&[Want]; 2] = [&[one, two, one], &[two, Want::permit(3, 3).lowering(), one]];
    walk("walks, a copy with permits", Config::new(&scripts, secs(60)).faults(copied).copied(), 400_000);
}
