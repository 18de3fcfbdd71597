//! Processes that hand their lease off between their tasks are killed, as by `kill -9`, in the middle of such a chain.

use crate::{
    figure::{Figure, Run},
    stage::{Bench, Referee},
};
use lock_testkit::{RedisServer, Seed, Stream};
use lock_trials::{
    line::Line,
    process::at_once,
    process::{PATIENCE, Process},
};
use std::{
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

const LEASE_MS: u64 = 500;
/// The number of concurrent locks, each with its own processes.
const LOCKS: usize = 4;
const PROCESSES: usize = 3;
const TASKS: &str = "8";
/// Another process may acquire the lock in the meantime.
const PAUSE_MS: u64 = 40;
/// One section in eight takes this long, so that it is the last of its chain.
const TAKES: &str = "20";
const INTO_THE_CHAIN_MICROS: u64 = 5_000;

pub(crate) fn killed_chains(run: &Run) -> Vec<Figure> {
    let wanted = run.times(15, 250);
    let (server, referee) = (Arc::new(RedisServer::start()), Referee::appears());
    let kills: usize = {
        let (server, bench, seed) = (server.clone(), referee.bench(), run.seed);
        at_once(LOCKS, move |number| {
            let mut random = Seed::new(seed.get() ^ number as u64).stream();
            Contenders::of(&server, bench, number).kill_in_chains(wanted, &mut random)
        })
        .into_iter()
        .sum()
    };
    let (windows, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    let hits = wanted * LOCKS;
    assert!(windows > 2 * hits as u64, "the referee recorded the holds before and after: {windows}");
    vec![Figure::new(
        "`kill -9` of a process that had handed its lease on internally; lease 500 ms, 3 processes of 8 tasks",
        hits,
        "no overlap; every token greater than the one before",
        format!(
            "0 overlaps, 0 repeated, 0 smaller in {windows} holds ({} more kills met no chain)",
            kills - hits
        ),
    )]
}

/// Processes with many tasks that want one lock.
struct Contenders<'a> {
    server: &'a RedisServer,
    bench: Bench,
    lock: String,
    nodes: Vec<Process>,
}

impl<'a> Contenders<'a> {
    fn of(server: &'a RedisServer, bench: Bench, number: usize) -> Self {
        let mut this = Self { server, bench, lock: format!("chain:{number}"), nodes: Vec::new() };
        this.nodes = (0..PROCESSES).map(|_| this.join()).collect();
        this
    }

    fn join(&self) -> Process {
        let words = ["contend", &self.lock, TASKS, "--takes", TAKES];
        self.bench.watches(&self.server.url(), LEASE_MS, &words)
    }

    /// Kills until this many kills hit a holder whose lease had been handed off. Returns the number of all kills.
    fn kill_in_chains(mut self, wanted: usize, random: &mut Stream) -> usize {
        let (mut kills, mut hits) = (0, 0);
        while hits < wanted {
            // Wait for the end of the last victim's lease. The lock then moves between processes for a while.
            self.next_in_a_chain();
            sleep(Duration::from_millis(random.below(PAUSE_MS)));
            let victim = self.next_in_a_chain();
            sleep(Duration::from_micros(random.below(INTO_THE_CHAIN_MICROS)));
            self.nodes[victim].kill();
            let last = self.nodes[victim].rest().pop();
            self.nodes[victim] = self.join();
            kills += 1;
            hits += usize::from(last.as_ref().is_some_and(is_in_a_chain));
            assert!(kills < 10 + 10 * wanted, "{hits} of {kills} kills met a lease that had been handed off");
        }
        kills
    }

    /// Returns the next process that reports a hand-off of its lease.
    fn next_in_a_chain(&mut self) -> usize {
        for node in &mut self.nodes {
            // Skips earlier reports.
            while node.line_within(Duration::ZERO).is_some() {}
        }
        let begin = Instant::now();
        loop {
            for (number, node) in self.nodes.iter_mut().enumerate() {
                while let Some(line) = node.line_within(Duration::ZERO) {
                    if is_in_a_chain(&line) {
                        return number;
                    }
                }
            }
            assert!(begin.elapsed() < PATIENCE, "no hand-off is reported");
            sleep(Duration::from_micros(200));
        }
    }
}

/// Returns `true` if the report is from a holder whose lease was handed off.
fn is_in_a_chain(line: &Line) -> bool {
    line.word() == "inside" && line.number("passes") > 0
}
