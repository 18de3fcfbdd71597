//! A process waits while another hands its lease off between its tasks: the number of holds that bypass the waiter.

use crate::{
    figure::{Figure, Run},
    stage::{ENDLESS, HANGS, factory, lock, on_a_runtime},
    support::command,
};
use lock_core::LockOptions;
use lock_testkit::RedisServer;
use lock_trials::{
    line::{Line, now},
    process::Process,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

const LOCK: &str = "x";
const TASKS: &str = "32";
/// The number of consecutive grants from the store that a process takes while others wait.
const TURNS: usize = 16;
/// The default number of hand-offs.
const PASSES: usize = 256;
/// The time for which the process then leaves the lock to others, in µs.
const STEP_BACK: u64 = 10_000;
/// Waits start at any point of the other process's sequence.
const PAUSE_MS: u64 = 15;

pub(crate) fn bypassed_waiters(run: &Run) -> Vec<Figure> {
    let waits = run.times(60, 1_000);
    let of = |hand_off: &'static [&'static str]| on_a_runtime(bypasses(*run, waits, hand_off));
    let (on, off) = (of(&[]), of(&["--hand-off", "0"]));
    assert!(on.worst <= TURNS + PASSES, "{on:?}");
    assert!(on.passed_on > 0, "leases are handed off: {on:?}");
    assert!(off.worst <= TURNS && off.passed_on == 0, "{off:?}");
    vec![Figure::new(
        "one waiter against 32 busy tasks of another process; hand-offs on / off",
        format!("{waits} / {waits}"),
        format!("bypassed at most {} / {TURNS} times until the lock is left to it for 10 ms", TURNS + PASSES),
        format!(
            "{} / {}; had after {} / {} such times at most; {} / {} hand-offs",
            on.worst, off.worst, on.steps_back, off.steps_back, on.passed_on, off.passed_on
        ),
    )]
}

/// A hold of the busy process.
#[derive(Debug)]
struct Section {
    token: u64,
    passes: u64,
    entered: u64,
    left: u64,
}

/// A wait of the other process: the time of its request, and its token.
struct Wait {
    asked: u64,
    token: u64,
}

#[derive(Debug, Default)]
struct Bypasses {
    /// The maximum number of holds that bypassed a waiter before the lock was left to it.
    worst: usize,
    /// The maximum number of times that the lock was left to a waiter.
    steps_back: usize,
    passed_on: usize,
}

async fn bypasses(run: Run, waits: usize, hand_off: &[&str]) -> Bypasses {
    let (server, mut random) = (Arc::new(RedisServer::start()), run.seed.stream());
    let lease = u64::try_from(ENDLESS.as_millis()).unwrap();
    let words = [hand_off, &["contend", LOCK, TASKS]].concat();
    let mut busy = Process::start(&mut command(&server.url(), lease, &words));
    let locks = factory(&server.url(), LockOptions::new().lease(ENDLESS)).await;
    let lock = lock(&locks, LOCK);
    let (mut done, mut sections) = (Vec::new(), Sections::default());
    let begin = Instant::now();
    while done.len() < waits {
        // A subscription outlives its wait by 2 s, so every wait except the first ones starts with one.
        let subscribed = subscribers(&server) == 2;
        let asked = now();
        let guard = timeout(HANGS, lock.acquire()).await.expect("no starvation").unwrap();
        let token = guard.fencing_token().get();
        guard.release().await.unwrap();
        if subscribed {
            done.push(Wait { asked, token });
        }
        assert!(begin.elapsed() < HANGS * 10, "both processes subscribe");
        sections.hear(&mut busy);
        sleep(Duration::from_millis(random.below(PAUSE_MS))).await;
    }
    busy.kill();
    busy.rest().into_iter().for_each(|line| sections.note(&line));
    done.iter().fold(Bypasses::default(), |mut sum, wait| {
        let (worst, steps_back) = sections.bypass(wait);
        (sum.worst, sum.steps_back) = (sum.worst.max(worst), sum.steps_back.max(steps_back));
        sum.passed_on = sections.0.iter().filter(|section| section.passes > 0).count();
        sum
    })
}

fn subscribers(server: &RedisServer) -> i64 {
    let channel = format!("redisson_lock__channel:{{{LOCK}}}");
    let reply = server.command(&["PUBSUB", "NUMSUB", &channel]);
    reply.list()[1].integer()
}

/// The holds of the busy process, in order.
#[derive(Default)]
struct Sections(Vec<Section>);

impl Sections {
    fn hear(&mut self, busy: &mut Process) {
        while let Some(line) = busy.line_within(Duration::ZERO) {
            self.note(&line);
        }
    }

    fn note(&mut self, line: &Line) {
        let (token, at) = (line.number("token"), line.number("at"));
        match line.word() {
            "inside" => {
                let passes = line.number("passes");
                self.0.push(Section { token, passes, entered: at, left: at });
            }
            _ => self.0.last_mut().expect("entered before").left = at,
        }
    }

    /// Returns the maximum number of consecutive holds that bypassed this waiter, and the number of sequences. A
    /// sequence ends when the busy process leaves the lock alone for long enough.
    fn bypass(&self, wait: &Wait) -> (usize, usize) {
        let from = self.0.partition_point(|section| section.entered < wait.asked);
        let to = self.0.partition_point(|section| section.token < wait.token);
        let sections = self.0.get(from..to).unwrap_or_default();
        let ends =
            |[before, next]: [&Section; 2]| next.passes == 0 && next.entered - before.left >= STEP_BACK;
        let (mut worst, mut row, mut steps_back) = (0, 0, 0);
        for (number, section) in sections.iter().enumerate() {
            if number > 0 && ends([&sections[number - 1], section]) {
                (row, steps_back) = (0, steps_back + 1);
            }
            row += 1;
            worst = worst.max(row);
        }
        (worst, steps_back + usize::from(!sections.is_empty()))
    }
}
