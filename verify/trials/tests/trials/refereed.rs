//! Copies of processes contend under random faults, extend holds, and lose some to forced releases. The referee judges
//! exclusion and the order of tokens.
//!
//! After a forced release, a holder may believe in its hold until its next renewal, and may hand it on: the referee
//! leaves that out. The faults of a single server keep its data; nodes of a quorum lose theirs.

use crate::{
    figure::{Figure, Run},
    stage::{Bench, Referee, blocking, factory, on_a_runtime},
};
use lock_core::{LockFactory, LockOptions, inspect::ForceReleaseOutcome};
use lock_testkit::{Direction, RedisServer, Seed, Stream, TcpProxy};
use lock_trials::{
    cli::Client,
    process::Process,
    referee::{Witness, boot},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    net::SocketAddr,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

const NAMES: [&str; 3] = ["contended:1", "contended:2", "contended:3"];
/// Each is a process and its copy.
const WORKERS: usize = 3;
const LEASE: Duration = Duration::from_secs(1);

pub(crate) fn copies_on_a_server(run: &Run) -> Vec<Figure> {
    let what = "copies contend, extend holds, lose some by force, under random faults; one server, lease 1 s";
    vec![refereed(run, what, vec![RedisServer::builder().persistent().start()])]
}

pub(crate) fn copies_on_a_quorum(run: &Run) -> Vec<Figure> {
    let what = "the same on a quorum of three, whose nodes lose data one at a time";
    vec![refereed(run, what, (0..3).map(|_| RedisServer::start()).collect())]
}

fn refereed(run: &Run, what: &'static str, servers: Vec<RedisServer>) -> Figure {
    let referee = Referee::appears();
    let time = Duration::from_secs(run.times(20, 600));
    let done = on_a_runtime(contend(servers, referee.bench(), run.seed, time));
    let verdict = referee.verdict();
    let [overlaps, fell, repeated] =
        ["overlap", "token_fell", "token_repeated"].map(|kind| verdict.count(kind));
    assert_eq!(verdict.texts(), Vec::<String>::new());
    assert!(verdict.windows > 0 && done.forced > 0, "{done:?}");
    Figure::new(
        what,
        format!(
            "{} s, {} copies, {} faults, {} forced releases",
            time.as_secs(),
            done.copies,
            done.faults,
            done.forced
        ),
        "no overlap; every token greater than the one before",
        format!(
            "overlaps / smaller / repeated tokens {overlaps} / {fell} / {repeated} in {} holds ({} of a freed lease left out)",
            verdict.windows, verdict.left_out
        ),
    )
}

/// The numbers of a run.
#[derive(Debug, Default)]
struct Done {
    copies: u64,
    faults: u64,
    forced: u64,
}

/// A process and its copy.
struct Pair {
    process: Process,
    copy: Pid,
}

struct Stage {
    servers: Vec<Arc<RedisServer>>,
    ways: Vec<Arc<TcpProxy>>,
    bench: Bench,
    witness: Witness,
    operator: LockFactory,
    dice: Stream,
    done: Done,
}

/// Returns the address of a server, or of a quorum.
fn url(addresses: &[SocketAddr]) -> String {
    match addresses {
        [one] => format!("redis://{one}"),
        all => {
            let nodes: Vec<_> = all.iter().map(ToString::to_string).collect();
            format!("redlock://{}?max_lease=5s", nodes.join(","))
        }
    }
}

async fn contend(servers: Vec<RedisServer>, bench: Bench, seed: Seed, time: Duration) -> Done {
    let servers: Vec<_> = servers.into_iter().map(Arc::new).collect();
    let direct: Vec<_> = servers.iter().map(|server| server.address()).collect();
    let mut stage = Stage {
        ways: direct.iter().map(|to| Arc::new(TcpProxy::start(*to))).collect(),
        servers,
        bench,
        witness: bench.witness(LEASE / 20),
        operator: factory(&url(&direct), LockOptions::new().lease(LEASE)).await,
        dice: seed.stream(),
        done: Done::default(),
    };
    let mut pairs: Vec<_> = (0..WORKERS).map(|_| stage.starts()).collect();
    let begin = Instant::now();
    while begin.elapsed() < time || stage.done.forced == 0 {
        tokio::time::sleep(Duration::from_millis(stage.dice.below(300))).await;
        let pair = usize::try_from(stage.dice.below(WORKERS as u64)).unwrap();
        stage.trouble(&mut pairs[pair]).await;
        stage.force().await;
    }
    stage.operator.shutdown().await;
    stage.done
}

impl Stage {
    fn starts(&mut self) -> Pair {
        let ways: Vec<_> = self.ways.iter().map(|way| way.address()).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_lock-twins"));
        command.args(["--client", Client::of_this_run().name(), &url(&ways), "contend"]);
        command.args(["--lease", &LEASE.as_millis().to_string()]);
        command.args(["--referee", &self.bench.address().to_string()]);
        command.args(["--seed", &self.dice.number().to_string()]).args(NAMES);
        let mut process = Process::start(&mut command);
        let copy = process.expect("copied").number("pid");
        self.done.copies += 1;
        let copy = Pid::from_raw(i32::try_from(copy).unwrap()).unwrap();
        Pair { process, copy }
    }

    /// Causes a fault and waits for its end.
    async fn trouble(&mut self, pair: &mut Pair) {
        // Shorter or longer than a lease: some holds survive it, others do not.
        let lasts = LEASE * u32::try_from(self.dice.below(17)).unwrap() / 10;
        let node = usize::try_from(self.dice.below(self.servers.len() as u64)).unwrap();
        let (server, way) = (self.servers[node].clone(), self.ways[node].clone());
        self.done.faults += 1;
        match self.dice.below(11) {
            0 => way.cut(),
            1 => way.refuse(),
            2 => way.stall(Direction::ToServer),
            3 => way.stall(Direction::ToClient),
            4 => way.delay(Duration::from_millis(self.dice.below(120))),
            5 => {
                let dice = Mutex::new(Seed::new(self.dice.number()).stream());
                way.lose_replies(move |_| dice.lock().unwrap().below(20) == 0);
            }
            6 => {
                return blocking(&server, move |server| {
                    server.pause();
                    std::thread::sleep(lasts);
                    server.resume();
                })
                .await;
            }
            7 => {
                // A node of a quorum loses its data.
                return blocking(&server, |server| {
                    server.shutdown();
                    server.restart();
                })
                .await;
            }
            8 => {
                // Kills its copy as well.
                pair.process.kill();
                *pair = self.starts();
                return;
            }
            9 => {
                pair.process.pause();
                tokio::time::sleep(lasts).await;
                return pair.process.resume();
            }
            _ => {
                // Not reaped while its original lives, so that the id is its own.
                kill_process(pair.copy, Signal::STOP).unwrap();
                tokio::time::sleep(lasts).await;
                return kill_process(pair.copy, Signal::CONT).unwrap();
            }
        }
        tokio::time::sleep(lasts).await;
        way.pass();
    }

    /// Releases the first lock that is held.
    async fn force(&mut self) {
        for name in NAMES {
            let from = boot();
            match self.operator.force_release(name).await {
                Ok(ForceReleaseOutcome::NotHeld) => continue,
                Ok(ForceReleaseOutcome::Released { lease }) => self.witness.forced(name, Some(lease), from),
                // Some nodes of a quorum, or a server without an answer, may have released it.
                Ok(_) | Err(_) => self.witness.forced(name, None, from),
            }
            self.done.forced += 1;
            return;
        }
    }
}
