//! Five processes elect a leader, which is killed, paused, cut off from the server, or terminated.

use crate::{
    figure::{Figure, Run, ms},
    stage::{Bench, HANGS, Referee},
};
use lock_testkit::{RedisServer, Stream, TcpProxy};
use lock_trials::{
    line::{Order, now},
    process::Process,
};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(2);
const CANDIDATES: usize = 5;

/// The worst times of one fault, in the order of its rounds.
#[derive(Debug, Default)]
struct Worst {
    times: usize,
    /// From the fault to the next leader.
    vacancy: Duration,
    /// From the election, or the end of the fault if that is later, until each process has the right role.
    roles: Duration,
}

/// The times of a fault.
struct Fault {
    began: u64,
    elected: u64,
    ended: u64,
}

pub(crate) fn elections(run: &Run) -> Vec<Figure> {
    let (server, referee) = (RedisServer::start(), Referee::appears());
    let mut fleet = Fleet::of(&server, referee.bench());
    let mut random = run.seed.stream();
    let killed = fleet.suffers(run.times(3, 50), &mut random, Fleet::kill);
    let paused = fleet.suffers(run.times(1, 20), &mut random, Fleet::pause);
    let cut_off = fleet.suffers(run.times(1, 20), &mut random, Fleet::cut_off);
    let ended = fleet.suffers(run.times(1, 20), &mut random, Fleet::terminate);
    drop(fleet);
    let (windows, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    let times = killed.times + paused.times + cut_off.times + ended.times;
    assert!(windows > times as u64, "the referee recorded every term: {windows}");
    let soon = LEASE + Duration::from_secs(1);
    let figure = |what, worst: &Worst, bound| {
        let (vacancy, roles) = (ms(worst.vacancy), ms(worst.roles));
        Figure::new(
            what,
            worst.times,
            format!(
                "at most one leader; the next one within {}; all roles right within another {}",
                ms(bound),
                ms(LEASE)
            ),
            format!("0 overlaps in {windows} terms, {vacancy}, {roles}"),
        )
    };
    vec![
        figure("`kill -9` of the leader of 5 processes; lease 2 s", &killed, soon),
        figure("`SIGSTOP` of the leader for two leases", &paused, soon),
        figure("leader cut off from the server", &cut_off, soon),
        figure("`SIGTERM` of the leader; its body ends first", &ended, Duration::from_secs(1)),
    ]
}

/// The candidates, each with its own proxy to the server.
struct Fleet {
    bench: Bench,
    candidates: Vec<Candidate>,
    /// The candidate that was elected last.
    leader: Elected,
}

struct Candidate {
    process: Process,
    way: TcpProxy,
    id: String,
    /// The latest report of its role: whether it leads, and the leader.
    role: Option<(bool, String)>,
    body_ended: u64,
    /// It has reported its clean end, and will not report anything else.
    has_stopped: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Elected {
    candidate: usize,
    token: u64,
    at: u64,
}

impl Fleet {
    fn of(server: &RedisServer, bench: Bench) -> Self {
        let candidates = (0..CANDIDATES).map(|_| Candidate::join(bench, TcpProxy::start(server.address())));
        let mut this = Self { bench, candidates: candidates.collect(), leader: Elected::default() };
        this.next_leader(0);
        this.agree(0);
        this
    }

    /// Repeats a fault of the leader.
    fn suffers(&mut self, times: usize, random: &mut Stream, fault: fn(&mut Self) -> Fault) -> Worst {
        let mut worst = Worst { times, ..Worst::default() };
        for _ in 0..times {
            // Just elected, just renewed, or about to renew.
            sleep(Duration::from_millis(random.below(700)));
            self.read();
            let before = self.leader.token;
            let Fault { began, elected, ended } = fault(self);
            assert!(self.leader.token > before, "{:?} after {before}", self.leader);
            worst.vacancy = worst.vacancy.max(Duration::from_micros(elected.saturating_sub(began)));
            worst.roles = worst.roles.max(self.agree(ended));
        }
        worst
    }

    fn kill(&mut self) -> Fault {
        let leader = self.leader.candidate;
        self.candidates[leader].process.kill();
        let began = now();
        self.replace(leader);
        let elected = self.next_leader(began).at;
        Fault { began, elected, ended: elected }
    }

    fn pause(&mut self) -> Fault {
        let leader = self.leader.candidate;
        self.candidates[leader].process.pause();
        let began = now();
        let elected = self.next_leader(began).at;
        self.candidates[leader].ask();
        sleep((2 * LEASE).saturating_sub(Duration::from_micros(now() - began)));
        let ended = now();
        self.candidates[leader].process.resume();
        assert!(!self.answer(leader).0, "it notices first that it no longer leads");
        Fault { began, elected, ended }
    }

    fn cut_off(&mut self) -> Fault {
        let leader = self.leader.candidate;
        self.candidates[leader].way.refuse();
        let began = now();
        let elected = self.next_leader(began).at;
        self.candidates[leader].ask();
        assert_eq!(self.answer(leader), (false, String::new()), "it knows no leader");
        self.candidates[leader].way.pass();
        Fault { began, elected, ended: now() }
    }

    fn terminate(&mut self) -> Fault {
        let leader = self.leader.candidate;
        let began = now();
        self.candidates[leader].process.terminate();
        let elected = self.next_leader(began).at;
        let begin = Instant::now();
        while self.candidates[leader].body_ended < began {
            assert!(begin.elapsed() < HANGS, "its body does not end");
            self.read();
        }
        let ended = self.candidates[leader].body_ended;
        assert!(ended <= elected, "its body ends before the next term begins");
        assert!(self.replace(leader).ends(), "clean exit");
        Fault { began: ended, elected, ended: elected }
    }

    /// Replaces a process with a new one, and returns the old one.
    fn replace(&mut self, candidate: usize) -> Process {
        let bench = self.bench;
        let this = &mut self.candidates[candidate];
        let (process, id) = Candidate::start(bench, &this.way);
        (this.id, this.role, this.body_ended, this.has_stopped) = (id, None, 0, false);
        std::mem::replace(&mut this.process, process)
    }

    /// Waits for an election after this time.
    fn next_leader(&mut self, after: u64) -> Elected {
        let begin = Instant::now();
        while self.leader.at <= after {
            assert!(begin.elapsed() < HANGS, "no candidate leads");
            sleep(Duration::from_millis(2));
            self.read();
        }
        self.leader
    }

    /// Waits until each process has the right role. Returns the time that took since the election, or since `after` if
    /// that is later.
    fn agree(&mut self, after: u64) -> Duration {
        let begin = Instant::now();
        loop {
            self.candidates.iter_mut().for_each(Candidate::ask);
            let roles: Vec<_> = (0..CANDIDATES).map(|candidate| self.answer(candidate)).collect();
            let leader = self.leader;
            let id = &self.candidates[leader.candidate].id;
            let is_right = |(candidate, (leads, of)): (usize, &(bool, String))| {
                *leads == (candidate == leader.candidate) && of == id
            };
            if roles.iter().enumerate().all(is_right) {
                return Duration::from_micros(now() - leader.at.max(after));
            }
            assert!(begin.elapsed() < HANGS, "the leader is {leader:?}, but the roles are {roles:?}");
            sleep(Duration::from_millis(10));
        }
    }

    /// Returns the next report of a candidate's role.
    fn answer(&mut self, candidate: usize) -> (bool, String) {
        let begin = Instant::now();
        loop {
            self.read();
            if let Some(role) = self.candidates[candidate].role.take() {
                return role;
            }
            assert!(begin.elapsed() < HANGS, "no answer");
            sleep(Duration::from_millis(1));
        }
    }

    /// Reads the reports of the processes.
    fn read(&mut self) {
        for (candidate, this) in self.candidates.iter_mut().enumerate() {
            while !this.has_stopped
                && let Some(line) = this.process.line_within(Duration::ZERO)
            {
                match line.word() {
                    "elected" if line.number("at") > self.leader.at => {
                        let (token, at) = (line.number("token"), line.number("at"));
                        self.leader = Elected { candidate, token, at };
                    }
                    "body_ended" => this.body_ended = line.number("at"),
                    "role" => this.role = Some((line.is("leading"), line.text("leader").to_owned())),
                    "stopped" => this.has_stopped = true,
                    _ => {}
                }
            }
        }
    }
}

impl Candidate {
    fn join(bench: Bench, way: TcpProxy) -> Self {
        let (process, id) = Self::start(bench, &way);
        Self { process, way, id, role: None, body_ended: 0, has_stopped: false }
    }

    fn start(bench: Bench, way: &TcpProxy) -> (Process, String) {
        let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
        let mut process = bench.watches(&way.url(), lease_ms, &["elect", "leader"]);
        let id = process.expect("candidate").text("process").to_owned();
        (process, id)
    }

    fn ask(&mut self) {
        self.role = None;
        self.process.tell(&Order::Role);
    }
}
