//! Quorum nodes are killed and return empty, at most two at a time, while ten tasks take one lock in turn.

use super::{NODES, addresses, start, url};
use crate::{
    figure::{Figure, Run},
    stage::{HANGS, Referee, factory, lock, on_a_runtime, until},
};
use lock_core::LockOptions;
use lock_testkit::{RedisServer, Stream};
use lock_trials::process::Process;
use std::{
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

const LEASE_MS: u64 = 2_000;
const OPTIONS: &str = "max_lease=5s";
const PROCESSES: usize = 5;
const TASKS: &str = "2";
/// The number of hand-offs of a process's lease before other processes have their turn.
const PASSES: &str = "8";
/// The number of holds of each process while nodes are away.
const TURNS: usize = 5;
/// The maximum additional time for which nodes stay away.
const AWAY_MS: u64 = 1_000;

pub(crate) fn failing_nodes(run: &Run) -> Vec<Figure> {
    let wanted = run.times(5_000, 100_000);
    let (referee, servers, mut random) = (Referee::appears(), start(), run.seed.stream());
    let url = url(addresses(&servers), OPTIONS);
    let words = ["--hand-off", PASSES, "contend", "x", TASKS];
    let bench = referee.bench();
    let mut contenders =
        Contenders((0..PROCESSES).map(|_| Contender::of(bench.watches(&url, LEASE_MS, &words))).collect());
    contenders.take(TURNS);
    let mut failed = 0;
    while failed < 2 || contenders.holds() < wanted {
        let victims = choose(&servers, &mut random);
        victims.iter().for_each(|server| server.stop());
        contenders.take(TURNS);
        sleep(Duration::from_millis(random.below(AWAY_MS)));
        victims.iter().for_each(|server| server.restart_empty());
        on_a_runtime(all_vote(&url, &victims, failed));
        failed += victims.len();
    }
    let holds: Vec<_> = contenders.0.iter().map(|one| one.holds).collect();
    let passed: usize = contenders.0.iter().map(|one| one.passed).sum();
    drop(contenders);
    let (heard, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    assert!(heard >= wanted as u64, "the referee recorded the holds: {heard}");
    let (least, most) = (holds.iter().min().unwrap(), holds.iter().max().unwrap());
    vec![Figure::new(
        "10 tasks in 5 processes take one lock of a quorum of 5, while one or two nodes are killed and restart empty",
        format!("{heard} holds, {failed} nodes"),
        "no overlap, each token greater than the one before, each process has its turn at each failure",
        format!(
            "0 overlaps, 0 repeated, 0 smaller; a process had {least} to {most} holds, {passed} were handed off"
        ),
    )]
}

/// Chooses one or two nodes.
fn choose(servers: &[Arc<RedisServer>], random: &mut Stream) -> Vec<Arc<RedisServer>> {
    let mut below = |end: usize| usize::try_from(random.below(end as u64)).unwrap();
    let (first, distance, count) = (below(NODES), 1 + below(NODES - 1), 1 + below(2));
    [first, (first + distance) % NODES].map(|node| servers[node].clone())[..count].to_vec()
}

/// Waits until these nodes vote again: each takes part in a lock that was never taken before.
async fn all_vote(url: &str, servers: &[Arc<RedisServer>], number: usize) {
    let locks = factory(url, LockOptions::new().lease(Duration::from_millis(LEASE_MS))).await;
    let mut tries = 0;
    until("the nodes vote again", async || {
        tries += 1;
        let name = format!("probe:{number}:{tries}");
        let _ = lock(&locks, &name).acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let counter = format!("redisson_lock_token:{{{name}}}");
        servers.iter().all(|server| server.command(&["EXISTS", &counter]).integer() == 1)
    })
    .await;
    locks.shutdown().await;
}

struct Contenders(Vec<Contender>);

/// A process, the number of its holds, and the number of its holds by a lease that was handed off.
struct Contender {
    process: Process,
    holds: usize,
    passed: usize,
}

impl Contender {
    fn of(process: Process) -> Self {
        Self { process, holds: 0, passed: 0 }
    }
}

impl Contenders {
    /// Waits until each process has had this many more holds.
    fn take(&mut self, turns: usize) {
        self.listen();
        let enough: Vec<_> = self.0.iter().map(|one| one.holds + turns).collect();
        let begin = Instant::now();
        while self.0.iter().zip(&enough).any(|(one, enough)| one.holds < *enough) {
            assert!(begin.elapsed() < HANGS, "a process has no turn");
            sleep(Duration::from_millis(2));
            self.listen();
        }
    }

    fn holds(&mut self) -> usize {
        self.listen();
        self.0.iter().map(|one| one.holds).sum()
    }

    fn listen(&mut self) {
        for one in &mut self.0 {
            while let Some(line) = one.process.line_within(Duration::ZERO) {
                one.holds += usize::from(line.word() == "left");
                one.passed += usize::from(line.word() == "inside" && line.number("passes") > 0);
            }
        }
    }
}
