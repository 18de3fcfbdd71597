//! Servers of a cluster that do not reach each other, while clients reach all of them: in network namespaces, which the trial
//! enters by starting its program again.

use crate::{
    figure::{Figure, Run},
    stage::{Bench, HANGS, Referee},
};
use lock_testkit::{EtcdCluster, Network, Seed, Stream, ZooKeeperEnsemble};
use lock_trials::{line::Order, process::Process};
use std::{
    env,
    process::{Command, Stdio},
    sync::Arc,
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

/// Set in the program that was started in a network of its own.
const INSIDE: &str = "LOCK_IN_A_NETWORK";
const TRIAL: &str = "isolated_servers";
const LOCKS: [&str; 3] = ["isolated:1", "isolated:2", "isolated:3"];
const WORKERS: usize = 3;
const LEASE_MS: u64 = 3_000;
/// Longer than any fault.
const BUDGET_MS: &str = "120000";

pub(crate) fn isolated_servers(run: &Run) -> Vec<Figure> {
    if env::var_os(INSIDE).is_some() {
        return inside(run);
    }
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--"]).arg(env::current_exe().expect("a running program"));
    command.args([TRIAL, "--exact"]).env(INSIDE, "1").env(Seed::VARIABLE, run.seed.to_string());
    let done = command.stderr(Stdio::inherit()).output().expect("`unshare` starts: install util-linux");
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "it needs `unshare` with user namespaces:\n{text}");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let figures = rows.filter_map(|row| match row.split(" | ").collect::<Vec<_>>().as_slice() {
        ["fault" | "---", ..] => None,
        &[what, times, bound, worst] => Some(Figure::new(what, times, bound, worst)),
        _ => None,
    });
    let figures: Vec<_> = figures.collect();
    assert_eq!(figures.len(), 2, "{text}");
    figures
}

fn inside(run: &Run) -> Vec<Figure> {
    let run = *run;
    let etcd = spawn(move || {
        let network = Arc::new(Network::start(77, 3));
        let cluster = EtcdCluster::start_in(&network, 3);
        let url = format!("{}?session=5s", cluster.url());
        isolate(&run, "an etcd cluster", &network, &url, || cluster.leader())
    });
    let zookeeper = spawn(move || {
        let network = Arc::new(Network::start(78, 3));
        let ensemble = ZooKeeperEnsemble::start_in(&network, 3);
        let url = format!("{}?session=8s", ensemble.url());
        isolate(&run, "a ZooKeeper ensemble", &network, &url, || ensemble.leader())
    });
    [etcd, zookeeper].into_iter().map(|trial| trial.join().expect("the trial passes")).collect()
}

/// Cuts servers off each other, one fault after the other, while processes contend.
fn isolate(run: &Run, what: &str, network: &Network, url: &str, leader: impl Fn() -> usize) -> Figure {
    let (rounds, referee) = (run.times(3, 60), Referee::appears());
    let mut random = run.seed.stream();
    let mut workers: Vec<_> = (0..WORKERS).map(|number| work(referee.bench(), url, number)).collect();
    for worker in &mut workers {
        worker.expect("ready");
    }
    for round in 0..rounds {
        fault(round, network, &leader, &mut random);
        // Others form a majority again, and waiters go on.
        sleep(Duration::from_secs(3));
    }
    let mut sections = 0;
    for mut worker in workers {
        worker.tell(&Order::Stop);
        let lines = worker.until("done");
        sections += lines.iter().filter(|line| line.word() == "section").count();
    }
    let (windows, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    assert!(windows > 0 && sections > 0, "they have worked");
    Figure::new(
        format!(
            "servers of {what} of three do not reach each other for 1 to 9 s: a follower its leader, a follower or the leader both others; clients reach all"
        ),
        rounds,
        "no overlap; every token greater than the one before; all go on",
        format!("0 overlaps, 0 smaller tokens in {windows} holds"),
    )
}

/// Cuts a follower off its leader, a follower off both others, or the leader off both, for a time that a session survives
/// or not.
fn fault(round: usize, network: &Network, leader: &impl Fn() -> usize, random: &mut Stream) {
    let first = leader();
    let followers = [(first + 1) % 3, (first + 2) % 3];
    let follower = followers[usize::from(random.chance(0.5))];
    let other = followers.into_iter().find(|server| *server != follower).expect("two followers");
    let cuts = match round % 3 {
        0 => vec![(follower, first)],
        1 => vec![(follower, first), (follower, other)],
        _ => vec![(first, follower), (first, other)],
    };
    cuts.iter().for_each(|&(a, b)| network.cut(a, b));
    if cuts.iter().all(|(a, _)| *a == first) {
        let begun = Instant::now();
        while leader() == first {
            assert!(begun.elapsed() < HANGS, "the others elect a leader");
        }
    }
    sleep(Duration::from_millis(1_000 + random.below(8_000)));
    cuts.iter().for_each(|&(a, b)| network.heal(a, b));
}

fn work(bench: Bench, url: &str, number: usize) -> Process {
    let seed = number.to_string();
    let mut words =
        vec!["--outage-budget", BUDGET_MS, "work", "--pause", "30", "--takes", "20", "--seed", &seed];
    words.extend(LOCKS);
    bench.watches(url, LEASE_MS, &words)
}
