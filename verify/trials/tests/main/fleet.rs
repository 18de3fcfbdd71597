//! Processes that are killed and replaced, and the attempts that they have reported.

use crate::{fleet_node::fleet_node, life::kind, place::Place};
use lock_testkit::Stream;
use lock_trials::{
    line::{Line, Order, now},
    process::{PATIENCE, Process},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    thread::sleep,
    time::{Duration, Instant},
};

const LEASE_MS: u64 = 4_000;

/// The number of a process, counted over the whole trial.
pub(crate) type Number = usize;

/// An attempt of a run, as reported by its process. Times are those of the machine's clock, in µs.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) by: Number,
    pub(crate) token: u64,
    pub(crate) began: u64,
    /// `None` if its process was killed before the end.
    ended: Option<u64>,
}

/// The attempts of a run, by their numbers.
type Attempts = BTreeMap<u64, Attempt>;

pub(crate) struct Fleet {
    pub(crate) place: Place,
    pub(crate) random: Stream,
    words: &'static [&'static str],
    nodes: Vec<(Number, Process)>,
    /// The number of processes so far.
    processes: Number,
    /// The times from which killed processes certainly did nothing, in µs.
    killed: BTreeMap<Number, u64>,
    runs: BTreeMap<String, BTreeMap<u64, Attempts>>,
    /// The number of orders whose process was killed before it confirmed them.
    pub(crate) unconfirmed: usize,
    /// The number of these orders to add that were executed.
    pub(crate) executed: usize,
}

impl Fleet {
    /// Starts nodes with these additional arguments.
    pub(crate) fn start(place: Place, nodes: usize, words: &'static [&'static str], random: Stream) -> Self {
        let mut fleet = Self {
            place,
            random,
            words,
            nodes: Vec::new(),
            processes: 0,
            killed: BTreeMap::new(),
            runs: BTreeMap::new(),
            unconfirmed: 0,
            executed: 0,
        };
        fleet.start_more(nodes);
        fleet
    }

    /// Starts additional nodes.
    pub(crate) fn start_more(&mut self, nodes: usize) {
        for _ in 0..nodes {
            self.nodes.push((self.processes, fleet_node(&self.place.url(), LEASE_MS, self.words)));
            self.processes += 1;
        }
    }

    /// Waits until every node has started a run: by then it has read the instances and knows the other nodes.
    pub(crate) fn wait_until_all_run(&mut self) {
        let begin = Instant::now();
        while self.nodes.iter().any(|(number, _)| self.attempts().all(|(.., attempt)| attempt.by != *number))
        {
            assert!(begin.elapsed() < PATIENCE, "some nodes start no run");
            let mut nodes = std::mem::take(&mut self.nodes);
            for (number, node) in &mut nodes {
                let lines = std::iter::from_fn(|| node.line_within(Duration::from_millis(20))).collect();
                self.read(*number, lines);
            }
            self.nodes = nodes;
        }
    }

    /// Makes a node execute the order. Some nodes are killed at a random point of the execution, and others repeat the
    /// order.
    pub(crate) fn order_among_kills(&mut self, order: &Order) {
        while self.random.chance(0.15) {
            let at = self.any();
            self.nodes[at].1.tell(order);
            sleep(Duration::from_micros(self.random.below(2_000)));
            if self.replace(at) {
                continue;
            }
            self.unconfirmed += 1;
            if let Order::Add { id, .. } = order {
                self.executed += usize::from(self.place.defined().contains(&kind(id)));
            }
        }
        self.order(order);
    }

    /// Makes a node execute the order.
    pub(crate) fn order(&mut self, order: &Order) {
        let at = self.any();
        let (number, node) = &mut self.nodes[at];
        node.tell(order);
        let (number, lines) = (*number, node.until("obeyed"));
        self.read(number, lines);
    }

    /// Kills a random node, and replaces it.
    pub(crate) fn kill_one(&mut self) {
        let at = self.any();
        self.replace(at);
    }

    /// Stops a random node for this time, as if its machine were suspended.
    pub(crate) fn pause_one(&mut self, time: Duration) {
        let at = self.any();
        self.nodes[at].1.pause();
        sleep(time);
        self.nodes[at].1.resume();
    }

    fn any(&mut self) -> usize {
        usize::try_from(self.random.below(self.nodes.len() as u64)).expect("few nodes")
    }

    /// Kills a node and starts another one. Returns `true` if it had confirmed its last order.
    fn replace(&mut self, at: usize) -> bool {
        let (number, mut node) = self.nodes.swap_remove(at);
        node.kill();
        self.killed.insert(number, now());
        let rest = node.rest();
        let confirmed = rest.iter().any(|line| line.word() == "obeyed");
        self.read(number, rest);
        self.start_more(1);
        confirmed
    }

    fn read(&mut self, number: Number, lines: Vec<Line>) {
        for line in lines {
            assert_ne!(line.word(), "refused", "{line:?}");
            match line.word() {
                "start" => {
                    let of_job = self.runs.entry(line.text("job").to_owned()).or_default();
                    let of_run = of_job.entry(line.number("run")).or_default();
                    let (token, began) = (line.number("token"), line.number("began"));
                    let attempt = Attempt { by: number, token, began, ended: None };
                    let before = of_run.insert(line.number("attempt"), attempt);
                    assert!(before.is_none(), "the attempt started twice: {line:?}");
                }
                "ended" | "cancelled" => {
                    let of_job = self.runs.get_mut(line.text("job"));
                    let of_run = of_job.and_then(|runs| runs.get_mut(&line.number("run")));
                    let token = line.number("token");
                    let attempt = of_run.and_then(|run| run.values_mut().find(|of| of.token == token));
                    attempt.expect("started").ended = Some(line.number("at"));
                }
                _ => {}
            }
        }
    }

    /// Stops all nodes gracefully.
    pub(crate) fn stop(&mut self) {
        for (_, node) in &mut self.nodes {
            node.tell(&Order::Stop);
        }
        for (number, mut node) in std::mem::take(&mut self.nodes) {
            let lines = node.until("stopped");
            self.read(number, lines);
        }
    }

    /// Returns the instants of the reported runs of a job. Asserts that each was started by one process unless that was
    /// killed.
    pub(crate) fn started(&self, job: &str) -> BTreeSet<u64> {
        let Some(runs) = self.runs.get(job) else { return BTreeSet::new() };
        for (run, attempts) in runs {
            let mut earlier = attempts.values().rev().skip(1);
            let died = earlier.all(|attempt| self.killed.contains_key(&attempt.by));
            assert!(died, "{run} of {job} started again: {attempts:?}, killed: {:?}", self.killed);
            let tokens = attempts.values().map(|attempt| attempt.token);
            assert!(tokens.is_sorted_by(|a, b| a < b), "tokens of {run} of {job} do not rise: {attempts:?}");
        }
        runs.keys().copied().collect()
    }

    /// Returns all attempts of all jobs: the run, the number and the report of each.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = (u64, u64, &Attempt)> {
        let runs = self.runs.values().flatten();
        runs.flat_map(|(run, attempts)| attempts.iter().map(|(number, attempt)| (*run, *number, attempt)))
    }

    /// Returns the time at which the body of an attempt had ended, or its process was dead.
    pub(crate) fn end_of(&self, attempt: &Attempt) -> u64 {
        let ended = attempt.ended.or_else(|| self.killed.get(&attempt.by).copied());
        ended.unwrap_or_else(|| panic!("{attempt:?} neither ended, nor was its process killed"))
    }

    /// Returns the number of processes that were killed.
    pub(crate) fn killed(&self) -> usize {
        self.killed.len()
    }
}
