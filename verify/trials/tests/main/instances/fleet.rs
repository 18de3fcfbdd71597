//! Processes that are killed and replaced, and the starts that all of them have reported.

use super::{kind, store::defined};
use crate::fleet_node::fleet_node;
use lock_testkit::{RedisServer, Stream};
use lock_trials::{
    line::{Line, Order},
    process::Process,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    thread::sleep,
    time::Duration,
};

const LEASE_MS: u64 = 4_000;

/// Missed instants are all made up for, also while runs of killed nodes are open, which are started again.
const WORDS: [&str; 4] = ["--catch-up", "1000", "--adopt", "50"];

/// The number of a process, counted over the whole trial.
type Number = usize;

/// The attempts of a run, and the processes that reported their starts.
type Attempts = BTreeMap<u64, Number>;

pub(super) struct Fleet {
    pub(super) server: RedisServer,
    pub(super) random: Stream,
    nodes: Vec<(Number, Process)>,
    killed: BTreeSet<Number>,
    starts: BTreeMap<String, BTreeMap<u64, Attempts>>,
    /// The number of orders whose process was killed before it confirmed them.
    pub(super) unconfirmed: usize,
    /// The number of orders to add among them that were executed.
    pub(super) executed: usize,
}

impl Fleet {
    pub(super) fn start(nodes: usize, random: Stream) -> Self {
        let server = RedisServer::start();
        let nodes = (0..nodes).map(|number| (number, fleet_node(&server, LEASE_MS, &WORDS))).collect();
        Self {
            server,
            random,
            nodes,
            killed: BTreeSet::new(),
            starts: BTreeMap::new(),
            unconfirmed: 0,
            executed: 0,
        }
    }

    /// Has a node execute the order. Some nodes are killed at a random point of the execution, and the order is repeated
    /// by others.
    pub(super) fn order(&mut self, order: &Order) {
        while self.random.chance(0.15) {
            let at = self.any();
            self.nodes[at].1.tell(order);
            sleep(Duration::from_micros(self.random.below(2_000)));
            if self.replace(at) {
                continue;
            }
            self.unconfirmed += 1;
            if let Order::Add { id, .. } = order {
                self.executed += usize::from(defined(&self.server).contains(&kind(id)));
            }
        }
        let at = self.any();
        let (number, node) = &mut self.nodes[at];
        node.tell(order);
        let (number, lines) = (*number, node.until("obeyed"));
        self.read(number, lines);
    }

    /// Kills a node, whatever it does, and replaces it.
    pub(super) fn kill_one(&mut self) {
        let at = self.any();
        self.replace(at);
    }

    fn any(&mut self) -> usize {
        usize::try_from(self.random.below(self.nodes.len() as u64)).expect("few nodes")
    }

    /// Kills a node and starts another one. Returns whether it had confirmed its last order.
    fn replace(&mut self, at: usize) -> bool {
        let (number, mut node) = self.nodes.swap_remove(at);
        node.kill();
        let rest = node.rest();
        let confirmed = rest.iter().any(|line| line.word() == "obeyed");
        self.read(number, rest);
        self.killed.insert(number);
        let next = self.nodes.len() + self.killed.len();
        self.nodes.push((next, fleet_node(&self.server, LEASE_MS, &WORDS)));
        confirmed
    }

    fn read(&mut self, number: Number, lines: Vec<Line>) {
        for line in lines {
            assert_ne!(line.word(), "refused", "{line:?}");
            if line.word() == "start" {
                let of_job = self.starts.entry(line.text("job").to_owned()).or_default();
                let of_run = of_job.entry(line.number("run")).or_default();
                let before = of_run.insert(line.number("attempt"), number);
                assert_eq!(before, None, "the attempt was started twice: {line:?}");
            }
        }
    }

    /// Stops all nodes in order.
    pub(super) fn stop(&mut self) {
        for (number, mut node) in std::mem::take(&mut self.nodes) {
            node.tell(&Order::Stop);
            let lines = node.until("stopped");
            self.read(number, lines);
        }
    }

    /// Returns the instants of the reported runs of an instance, each started by one process unless that was killed.
    pub(super) fn started(&self, name: &str) -> BTreeSet<u64> {
        let Some(runs) = self.starts.get(name) else { return BTreeSet::new() };
        for (run, attempts) in runs {
            let mut earlier = attempts.values().rev().skip(1);
            let died = earlier.all(|process| self.killed.contains(process));
            assert!(died, "{run} of {name} was started again: {attempts:?}, killed: {:?}", self.killed);
        }
        runs.keys().copied().collect()
    }

    /// Returns the number of processes that were killed.
    pub(super) fn killed(&self) -> usize {
        self.killed.len()
    }
}
