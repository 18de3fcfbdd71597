//! Processes that pass through sections of many locks, and the evaluation of their reports.

use lock_testkit::Seed;
use lock_trials::{
    line::{Line, Order},
    process::Process,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The outage budget of processes that must survive every failover, in ms.
pub(crate) const BUDGET: &str = "120000";

/// A section as reported by its process. Times are µs of the wall clock.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) lock: String,
    pub(crate) token: u64,
    pub(crate) asked: u64,
    pub(crate) at: u64,
    pub(crate) end: String,
    pub(crate) accepted: bool,
}

impl Section {
    fn of(line: &Line) -> Self {
        Self {
            lock: line.text("lock").to_owned(),
            token: line.number("token"),
            asked: line.number("asked"),
            at: line.number("at"),
            end: line.text("end").to_owned(),
            accepted: line.is("accepted"),
        }
    }

    /// Returns the time from the request to the grant.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_micros(self.at - self.asked)
    }

    /// Returns `true` if it was waiting for its grant at some moment between these.
    pub(crate) fn waited_between(&self, from: u64, to: u64) -> bool {
        self.asked <= to && self.at >= from
    }
}

/// Processes that pass through sections.
pub(crate) struct Load(Vec<Process>);

impl Load {
    /// Starts the processes, each with a seed for its pauses, and waits until they have begun.
    pub(crate) fn begin(processes: usize, seed: Seed, start: impl Fn(&str) -> Process) -> Self {
        let mut random = seed.stream();
        let mut processes: Vec<_> =
            (0..processes).map(|_| start(&format!("--seed={}", random.number()))).collect();
        processes.iter_mut().for_each(|process| drop(process.expect("ready")));
        Self(processes)
    }

    /// Returns all sections in the order of their grants. The trial fails if a process failed, or if its waiters are
    /// not granted eventually.
    pub(crate) fn end(mut self) -> Vec<Section> {
        self.0.iter_mut().for_each(|process| process.tell(&Order::Stop));
        let mut sections = Vec::new();
        for process in &mut self.0 {
            let mut lines = process.until("done");
            lines.pop();
            sections.extend(lines.iter().map(Section::of));
        }
        assert!(self.0.into_iter().all(Process::ends), "clean exits");
        sections.sort_unstable_by_key(|section| section.at);
        sections
    }
}

/// Returns the sections of each lock, in the order of their grants.
pub(crate) fn by_lock(sections: &[Section]) -> BTreeMap<&str, Vec<&Section>> {
    let mut locks: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for section in sections {
        locks.entry(section.lock.as_str()).or_default().push(section);
    }
    locks
}

/// Asserts that each grant has a greater token than every grant that existed when it was requested.
pub(crate) fn assert_tokens_grow(grants: &[&Section]) {
    let mut asked: Vec<_> = grants.to_vec();
    asked.sort_unstable_by_key(|section| section.asked);
    let (mut before, mut greatest) = (grants.iter().peekable(), 0);
    for section in asked {
        while let Some(earlier) = before.next_if(|earlier| earlier.at < section.asked) {
            greatest = greatest.max(earlier.token);
        }
        assert!(section.token > greatest, "{section:?} was requested after token {greatest} was granted");
    }
}

/// Returns the median and the maximum.
pub(crate) fn half_and_worst(times: impl IntoIterator<Item = Duration>) -> (Duration, Duration) {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

/// Waits until the condition holds. Panics with its description if it never does.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < crate::stage::HANGS, "{what}: not after {:?}", crate::stage::HANGS);
        std::thread::sleep(Duration::from_millis(10));
    }
}
