//! A cluster under load, with a fleet of schedulers: one slot is moved, then a master is killed.

use crate::{
    cycle::{self, CYCLES},
    figure::{Figure, Run, ms},
    sections::{BUDGET, Load, Section, assert_tokens_grow, by_lock, half_and_worst},
    stage::{Referee, on_a_runtime, store},
    support::{command, node},
};
use lock_testkit::{RedisCluster, Seed};
use lock_trials::{
    line::{Order, now},
    process::Process,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    thread::sleep,
    time::Duration,
};

const LEASE_MS: u64 = 10_000;
const PROCESSES: usize = 2;
/// The group of the fleet. Its run ledger shares the moving slot with the locks that have its name in braces.
const GROUP: &str = "fleet";
const NODES: usize = 3;
/// The time for which the keys of the slot are on two nodes.
const MOVE: Duration = Duration::from_millis(300);
const SECOND: u64 = 1_000_000;

pub(crate) fn moved_slot_and_dead_master(run: &Run) -> Vec<Figure> {
    let trial = Trial::on(RedisCluster::start(), run);
    let cost = trial.cost();
    let mut fleet = Fleet::starts(&trial.cluster);
    let mut figures = vec![trial.slot_is_moved()];
    figures.extend(trial.master_is_killed());
    figures.extend([fleet.ends(), cost]);
    figures
}

struct Trial {
    cluster: RedisCluster,
    locks: Vec<String>,
    /// The locks of the moving slot.
    moving: BTreeSet<String>,
    /// The pause of a task between two sections, in ms.
    pause: &'static str,
    moves: usize,
    seed: Seed,
    /// The time for which the load is measured before a fault.
    before: Duration,
}

impl Trial {
    fn on(cluster: RedisCluster, run: &Run) -> Self {
        let moving: BTreeSet<_> = (0..10).map(|number| format!("{{{GROUP}}}:{number}")).collect();
        let others = (0..run.times(40, 990)).map(|number| format!("cluster:{number}"));
        let locks = moving.iter().cloned().chain(others).collect();
        let before = Duration::from_secs(run.times(4, 60));
        let (pause, moves) = (run.times("200", "1000"), run.times(1, 5));
        Self { cluster, locks, moving, pause, moves, seed: run.seed, before }
    }

    fn cost(&self) -> Figure {
        let median = on_a_runtime(async { cycle::median(store(&self.cluster.url()).await).await });
        Figure::new(
            "– acquire and release of one task, nothing else",
            CYCLES,
            "–",
            format!("median {}", ms(median)),
        )
    }

    fn load(&self, options: &[&str]) -> Load {
        let options = [&["--outage-budget", BUDGET], options].concat();
        Load::begin(PROCESSES, self.seed, |seed| {
            let mut command = command(&self.cluster.url(), LEASE_MS, &options);
            Process::start(command.args(["work", seed, "--pause", self.pause]).args(&self.locks))
        })
    }

    fn slot_is_moved(&self) -> Figure {
        let referee = Referee::appears();
        let load = self.load(&["--referee", &referee.bench().address().to_string()]);
        let slot = self.cluster.slot_of(GROUP);
        let mut moves = Vec::new();
        for _ in 0..self.moves {
            sleep(self.before / 4);
            let from = self.cluster.server_of(GROUP);
            let to = self.cluster.servers()[..3].iter().find(|server| server.port() != from.port()).unwrap();
            let begin = now();
            self.cluster.begin_move(slot, from, to);
            sleep(MOVE);
            self.cluster.end_move(slot, from, to);
            moves.push((begin, now()));
            self.cluster.settle();
        }
        sleep(self.before / 4);
        let sections = load.end();
        let (windows, violations) = referee.judges();
        assert_eq!(violations, Vec::<String>::new());
        assert_eq!(windows, sections.len() as u64, "the referee recorded every section");
        by_lock(&sections).values().for_each(|grants| assert_tokens_grow(grants));
        all_are_released(&sections);
        let stalled = |own: bool| {
            let meanwhile = |section: &&Section| {
                moves.iter().any(|&(begin, end)| section.waited_between(begin, end))
                    && self.moving.contains(&section.lock) == own
            };
            half_and_worst(sections.iter().filter(meanwhile).map(Section::wait))
        };
        let (_, moved) = half_and_worst(moves.iter().map(|(begin, end)| Duration::from_micros(end - begin)));
        Figure::new(
            "Cluster, 2 processes take all names in turn: a slot is moved, its keys are at two nodes for 300 ms",
            format!("{} names, {} moves", self.locks.len(), self.moves),
            "no operation fails; no overlap; tokens rise",
            format!(
                "0 failed, 0 overlaps in {windows} holds; a move took at most {}, a name of the slot waited at most {}, \
                 one of another slot {} (median {})",
                ms(moved),
                ms(stalled(true).1),
                ms(stalled(false).1),
                ms(stalled(false).0)
            ),
        )
    }

    fn master_is_killed(&self) -> [Figure; 2] {
        // The master that serves the slot of the fleet.
        let master = self.cluster.server_of(GROUP);
        let serves = |lock: &String| self.cluster.server_of(lock).port() == master.port();
        let (gone, others): (BTreeSet<_>, BTreeSet<_>) = self.locks.iter().partition(|lock| serves(lock));
        let load = self.load(&[]);
        let begun = now();
        sleep(self.before);
        // Between two instants: a run that no replica knows would be lost with its master and would start again.
        sleep(Duration::from_micros(SECOND + SECOND / 2 - now() % SECOND));
        let killed = now();
        master.stop();
        let dead = now();
        self.cluster.settle();
        sleep(self.before / 4);
        let sections = load.end();
        let (of_gone, of_others): (Vec<_>, Vec<_>) =
            sections.into_iter().partition(|section| gone.contains(&section.lock));
        all_are_released(&of_others);
        let served = of_gone.iter().filter(|section| section.asked > dead).map(|section| section.at).min();
        let served = served.expect("the slots are served again");
        for (lock, grants) in by_lock(&of_gone) {
            assert_tokens_grow(&grants);
            assert!(grants.last().unwrap().at > served, "{lock} is served again");
        }
        assert_eq!(by_lock(&of_others).len(), others.len());
        let outage = Duration::from_micros(served - killed);
        let between = |sections: &[Section], from, to| {
            let waits = sections.iter().filter(|section| section.waited_between(from, to));
            half_and_worst(waits.map(Section::wait))
        };
        let (_, longest) = between(&of_gone, killed, served);
        let (half_before, worst_before) = between(&of_others, begun, killed);
        let (half, worst) = between(&of_others, killed, served);
        let lost = of_gone.iter().filter(|section| section.end != "released").count();
        [
            Figure::new(
                "– then the master of a third of the slots is killed: those slots",
                format!("{} names", gone.len()),
                "their waiters outlast the outage; tokens rise",
                format!(
                    "served again after {}, the longest wait {}; {lost} holds not confirmed at their end",
                    ms(outage),
                    ms(longest)
                ),
            ),
            Figure::new(
                "– the other slots",
                format!("{} names", others.len()),
                format!(
                    "no operation fails; no wait over a tenth of the outage ({}), median within 1.3 × that of the time before",
                    ms(outage / 10)
                ),
                format!(
                    "0 failed; longest wait {} (before: {}), median {} (before: {}, × {:.2})",
                    ms(worst),
                    ms(worst_before),
                    ms(half),
                    ms(half_before),
                    half.as_secs_f64() / half_before.as_secs_f64()
                ),
            ),
        ]
    }
}

fn all_are_released(sections: &[Section]) {
    let failed: Vec<_> = sections.iter().filter(|section| section.end != "released").collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Schedulers in separate processes, with a job that is due every second.
struct Fleet {
    nodes: Vec<Process>,
}

impl Fleet {
    fn starts(cluster: &RedisCluster) -> Self {
        let words = ["cron", GROUP, "* * * * * *", "--catch-up", "1000"];
        let mut nodes: Vec<_> = (0..NODES).map(|_| node(&cluster.url(), 5_000, &words)).collect();
        nodes.iter_mut().for_each(|node| drop(node.expect("ready")));
        Self { nodes }
    }

    fn ends(&mut self) -> Figure {
        // The last instants are caught up.
        sleep(Duration::from_secs(3));
        let mut runs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for node in &mut self.nodes {
            node.tell(&Order::Stop);
            for start in node.until("stopped").iter().filter(|line| line.word() == "start") {
                runs.entry(start.number("run") / 1_000).or_default().push(start.number("at"));
            }
        }
        let (first, last) = (*runs.keys().next().unwrap(), *runs.keys().next_back().unwrap());
        let mut latest = 0;
        for instant in first..=last {
            let starts = runs.get(&instant).map_or(&[][..], |starts| starts);
            assert_eq!(starts.len(), 1, "instant {instant} of {first} to {last}: {runs:?}");
            latest = latest.max(starts[0].saturating_sub(instant * SECOND));
        }
        Figure::new(
            "– a fleet of 3 schedulers through both, with a job every second and its ledger in these slots",
            format!("{} instants", runs.len()),
            "each instant is started once",
            format!("0 twice, 0 missed, the latest {} late", ms(Duration::from_micros(latest))),
        )
    }
}
