//! Failovers under load, some of which lose an acknowledged grant.

use crate::{
    figure::{Figure, Run, ms},
    sections::{BUDGET, Load, Section, assert_tokens_grow, by_lock, half_and_worst, wait_until},
    stage::on_a_runtime,
    support::{command, node},
};
use lock_testkit::{RedisSentinels, RedisServer};
use lock_trials::{
    fenced::FencedTable,
    line::{Order, now},
    process::Process,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

/// The locks that every process takes repeatedly.
const LOCKS: usize = 8;
const PROCESSES: usize = 3;
/// The locks that are held throughout, each by one process.
const HELD: usize = 4;
/// The leases of the three kinds. Some renewals are due in each failover, and no hold ends in one.
const WORKING_MS: u64 = 6_000;
const HOLDING_MS: u64 = 30_000;
const VICTIM_MS: u64 = 18_000;

/// The fault of the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// It is killed, and no replica has its last grant.
    LosesAGrant,
    /// It is suspended for a while (`SIGSTOP`) with its connections open.
    Paused,
    /// `SENTINEL FAILOVER`: it continues as a second master for some seconds before it becomes a replica.
    StepsDown,
    /// It is killed.
    Killed,
}

const FAULTS: [Fault; 4] = [Fault::LosesAGrant, Fault::Paused, Fault::StepsDown, Fault::Killed];

/// A failover, from the fault until all servers follow one master again.
struct FailOver {
    fault: Fault,
    begin: u64,
    end: u64,
}

pub(crate) fn fail_overs(run: &Run) -> Vec<Figure> {
    let deployment = RedisSentinels::start();
    let tables = tempfile::tempdir().unwrap();
    let locks: Vec<_> = (0..LOCKS).map(|number| format!("sentinel:{number}")).collect();
    locks.iter().for_each(|lock| assert_eq!(value(&tables.path().join(lock)), 0));
    let url = deployment.url();
    let load = Load::begin(PROCESSES, run.seed, |seed| {
        let words = ["--outage-budget", BUDGET, "work", seed, "--pause", "100", "--takes", "5", "--fence"];
        Process::start(command(&url, WORKING_MS, &words).arg(tables.path()).args(&locks))
    });
    let mut holders = Holders::hold(&url);
    let mut victims = ["lock", "fair"]
        .map(|kind| Victim::appears(&url, kind, tables.path().join(format!("victim-{kind}"))));
    let mut fail_overs = Vec::new();
    for fault in FAULTS.into_iter().cycle().take(run.times(2, 20)) {
        sleep(Duration::from_secs(1));
        let begin = now();
        match fault {
            Fault::LosesAGrant => are_lost(&mut victims, &deployment),
            Fault::StepsDown => deployment.fail_over(),
            Fault::Paused => fails(&deployment, RedisServer::pause, RedisServer::resume),
            Fault::Killed => fails(&deployment, RedisServer::stop, RedisServer::restart),
        }
        deployment.settle();
        fail_overs.push(FailOver { fault, begin, end: now() });
        holders.all_hold();
    }
    let sections = load.end();
    holders.release();
    report(&sections, &fail_overs, &victims, tables.path())
}

/// Makes the master fail. It returns as a replica of its successor.
fn fails(deployment: &RedisSentinels, end: fn(&RedisServer), back: fn(&RedisServer)) {
    let old = deployment.master();
    end(old);
    replaced(deployment, old);
    back(old);
    rejoin(deployment, old);
}

/// Waits until all sentinels name another master. A sentinel that does not know it yet might start a second failover.
pub(crate) fn replaced(deployment: &RedisSentinels, old: &RedisServer) {
    let named = |sentinel: &RedisServer| {
        let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", RedisSentinels::MASTER]);
        address.list()[1].text().to_owned()
    };
    wait_until("another server is the master", || {
        let names: BTreeSet<_> = deployment.sentinels().iter().map(named).collect();
        names.len() == 1 && !names.contains(&old.port().to_string())
    });
}

/// Makes the old master a replica. The sentinels would also do so, some seconds later.
pub(crate) fn rejoin(deployment: &RedisSentinels, old: &RedisServer) {
    old.command(&["REPLICAOF", "127.0.0.1", &deployment.master().port().to_string()]);
}

/// Suspends the replicas. Data under way to them is lost.
pub(crate) fn cut_off(deployment: &RedisSentinels) -> (&RedisServer, Vec<&RedisServer>) {
    let master = deployment.master();
    let replicas = deployment.servers().iter().filter(|server| server.port() != master.port());
    let replicas: Vec<_> = replicas.collect();
    replicas.iter().for_each(|replica| replica.pause());
    master.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    (master, replicas)
}

/// Processes with one hold each, from before the first failover until after the last one.
struct Holders(Vec<Process>);

impl Holders {
    fn hold(url: &str) -> Self {
        let hold = |number| node(url, HOLDING_MS, &["hold", &format!("held:{number}")]);
        let mut processes: Vec<_> = (0..HELD).map(hold).collect();
        processes.iter_mut().for_each(|process| drop(process.expect("held")));
        Self(processes)
    }

    fn all_hold(&mut self) {
        for process in &mut self.0 {
            process.tell(&Order::IsHeld);
            assert!(process.expect("is_held").is("held"), "a hold survives the failover");
        }
    }

    fn release(&mut self) {
        for process in &mut self.0 {
            process.tell(&Order::Release);
            assert!(process.expect("released").is("was_held"), "held in the store until the release");
        }
    }
}

/// Kills the master. The next one knows neither the grants of these locks nor who waits for them.
fn are_lost(victims: &mut [Victim; 2], deployment: &RedisSentinels) {
    let (master, replicas) = cut_off(deployment);
    let lost = victims.each_mut().map(|victim| victim.is_granted(master));
    master.stop();
    for replica in replicas {
        replica.resume();
        let is_granted = |key: &String| key.ends_with(Victim::NAME) || key.contains("distlock:queue");
        assert!(!replica.keys().iter().any(is_granted), "a replica has a grant");
    }
    for (victim, lost) in victims.iter_mut().zip(lost) {
        victim.is_granted_again(lost);
    }
    replaced(deployment, master);
    master.restart();
    rejoin(deployment, master);
}

/// Two processes: the first is granted a lock that the next master does not know; the second, which waits for it, is then
/// granted it there.
struct Victim {
    is_fair: bool,
    first: Process,
    second: Process,
    table: PathBuf,
    losses: usize,
}

impl Victim {
    const NAME: &str = "victim";

    fn appears(url: &str, kind: &str, table: PathBuf) -> Self {
        let words = ["--outage-budget", BUDGET, "--kind", kind, "hold", Self::NAME];
        let join = || {
            let mut process = node(url, VICTIM_MS, &words);
            process.expect("held");
            process.tell(&Order::Release);
            assert!(process.expect("released").is("was_held"));
            process
        };
        Self { is_fair: kind == "fair", first: join(), second: join(), table, losses: 0 }
    }

    /// Returns the token of a grant that the next master does not know.
    fn is_granted(&mut self, master: &RedisServer) -> u64 {
        self.first.tell(&Order::Acquire);
        let token = Self::granted(&mut self.first, &self.table);
        self.second.tell(&Order::Acquire);
        if self.is_fair {
            let queue = format!("distlock:queue:{{distlock:fair/{}}}", Self::NAME);
            wait_until("the other is queued", || master.command(&["ZCARD", &queue]).integer() == 1);
        }
        token
    }

    fn is_granted_again(&mut self, lost: u64) {
        let next = Self::granted(&mut self.second, &self.table);
        assert!(next > lost, "{next} after {lost}");
        assert!(!self.writes(|this| &mut this.first), "a stale write");
        self.first.tell(&Order::Lost);
        assert_eq!(self.first.expect("lost").text("reason"), "Gone");
        assert!(self.writes(|this| &mut this.second));
        for (process, held) in [(&mut self.first, false), (&mut self.second, true)] {
            process.tell(&Order::Release);
            assert_eq!(process.expect("released").is("was_held"), held);
        }
        self.losses += 1;
    }

    /// Waits for the grant, reads the table, and returns the token.
    fn granted(process: &mut Process, table: &Path) -> u64 {
        let token = process.expect("held").number("token");
        process.tell(&Order::Read { file: table.to_owned() });
        assert!(process.expect("read").is("fresh"));
        token
    }

    fn writes(&mut self, who: fn(&mut Self) -> &mut Process) -> bool {
        let process = who(self);
        process.tell(&Order::Write);
        process.expect("write").is("accepted")
    }
}

fn value(table: &Path) -> usize {
    let value = on_a_runtime(async { FencedTable::open(table).await.unwrap().value().await.unwrap() });
    usize::try_from(value).unwrap()
}

fn report(sections: &[Section], fail_overs: &[FailOver], victims: &[Victim], tables: &Path) -> Vec<Figure> {
    let (locks, last) = (by_lock(sections), fail_overs.last().unwrap().end);
    assert_eq!(locks.len(), LOCKS);
    for (lock, grants) in &locks {
        assert_tokens_grow(grants);
        let accepted = grants.iter().filter(|section| section.accepted);
        let tokens: BTreeSet<_> = accepted.clone().map(|section| section.token).collect();
        assert_eq!(tokens.len(), accepted.count(), "{lock}: each write has its own token");
        assert_eq!(value(&tables.join(lock)), tokens.len(), "{lock}: no write was lost to a stale one");
        assert!(grants.last().unwrap().at > last, "{lock} is granted after the last failover");
    }
    victims.iter().for_each(|victim| assert_eq!(value(&victim.table), victim.losses));
    let losses: usize = victims.iter().map(|victim| victim.losses).sum();
    let count = |fault| fail_overs.iter().filter(|one| one.fault == fault).count();
    let each = |cell: &dyn Fn(Fault) -> String| {
        let seen = FAULTS.into_iter().filter(|fault| count(*fault) > 0);
        seen.map(cell).collect::<Vec<_>>().join(" / ")
    };
    let outages = |fault| {
        let of_fault = fail_overs.iter().filter(move |one| one.fault == fault);
        half_and_worst(of_fault.flat_map(|one| locks.values().map(|grants| outage(grants, one))))
    };
    let refused = sections.iter().filter(|section| !section.accepted).count();
    let lost = sections.iter().filter(|section| section.end != "released").count();
    vec![
        Figure::new(
            "Sentinel, 3 processes take 8 locks, 4 hold one each: the master is killed with a grant that no replica has (one of \
             a lock, one of a fair lock with its queue) / \
             is paused (`SIGSTOP`) / steps down (`SENTINEL FAILOVER`) / is killed",
            each(&|fault| count(fault).to_string()),
            "no process restarts, no acquire fails, the 4 holds survive; a lost grant is reported as `Lost(Gone)`, tokens rise, \
             no stale write is accepted",
            format!(
                "{} lost grants reported; 0 of {} stale writes accepted; 0 smaller tokens, {lost} holds not confirmed at their \
                 end in {} sections",
                losses,
                losses + refused,
                sections.len()
            ),
        ),
        Figure::new(
            "– the longest time without a grant of a contended name: median",
            each(&|fault| (count(fault) * LOCKS).to_string()),
            "–",
            each(&|fault| ms(outages(fault).0)),
        ),
        Figure::new(
            "– the same: longest",
            each(&|fault| (count(fault) * LOCKS).to_string()),
            "–",
            each(&|fault| ms(outages(fault).1)),
        ),
    ]
}

/// Returns the longest time between two grants of a lock that overlaps with a failover.
fn outage(grants: &[&Section], fail_over: &FailOver) -> Duration {
    let overlap = |pair: &&[&Section]| pair[0].at < fail_over.end && pair[1].at > fail_over.begin;
    let longest = grants.windows(2).filter(overlap).map(|pair| pair[1].at - pair[0].at).max();
    Duration::from_micros(longest.expect("granted before and after"))
}
