//! Tests of the planner: due runs, claims, and their replies.

mod books;
mod catch_up;
mod on_time;
mod pools;

use super::{missed, *};
use crate::{
    observer::SkipReason,
    options::{JobTerms, Misfire, Overlap, Placement},
    schedule::Schedule,
};
use ClaimReply::{Busy, Duplicate, Early, PartlyDecided, Unregistered};
use lock_core::{FencingToken, LockName, clock::UtcTime};
use lock_ledger::{CatchUp, ClaimId, ClaimReply, GroupName, RunId, Skip};
use std::time::Duration;

const JOB: &str = "job";

fn at(secs: u64) -> UtcTime {
    UtcTime::from_millis(secs * 1000)
}

fn run_at(secs: u64) -> RunId {
    RunId::at_millis(secs * 1000)
}

fn name() -> LockName {
    LockName::new(JOB).unwrap()
}

fn granted() -> ClaimOutcome {
    ClaimOutcome::Answered(ClaimReply::Claimed {
        token: FencingToken::new(1),
        attempt: 1,
        failures: 0,
        payload: None,
    })
}

/// Creates the planner of a node without jobs.
fn planner() -> Planner {
    Planner::new(ClaimTerms {
        group: GroupName::new("group").unwrap(),
        node: "node".to_owned(),
        lease: Duration::from_secs(30),
        history: 10,
        draw: ClaimId::random,
    })
}

struct Story {
    planner: Planner,
    schedule: Schedule,
    /// The claims that were sent.
    sent: Vec<Due>,
    /// Set if the requests of the next answered claim may still be applied.
    in_doubt: bool,
    /// The number of scheduled times counted as missed.
    missed: u32,
}

/// Registers a job with this watermark in the store.
fn register(planner: &mut Planner, name: &LockName, watermark: UtcTime) {
    let registration = planner.registration(name).unwrap();
    planner.registered(&registration, watermark, watermark);
}

impl Story {
    /// Creates the planner of a node that has led since 0 s, with one job, which was registered then.
    fn led(schedule: &str, terms: JobTerms) -> Self {
        let schedule = Schedule::cron(schedule).unwrap();
        let mut planner = self::planner();
        let terms = JobTerms { placement: Placement::Leader, ..terms };
        planner.add(at(0), name(), schedule.clone(), terms);
        planner.elected();
        register(&mut planner, &name(), at(0));
        Self { planner, schedule, sent: Vec::new(), in_doubt: false, missed: 0 }
    }

    /// Runs a tick. Skips complete immediately.
    fn tick(&mut self, now: UtcTime) -> Vec<Command> {
        let mut out = Vec::new();
        loop {
            self.planner.tick(now, u32::MAX, &mut Budget::default(), &mut out);
            let is_row =
                |command: &Command| matches!(command, Command::Claim(due) if due.request.skip.is_some());
            let Some(row) = out.iter().position(is_row) else { break };
            let Command::Claim(due) = out.remove(row) else { unreachable!("a claim") };
            self.planner.claim_answered(now, &due, ClaimOutcome::Answered(ClaimReply::Skipped), &mut out);
        }
        self.missed += out.iter().map(missed).sum::<u32>();
        self.sent.extend(out.iter().filter_map(claim).cloned());
        out
    }

    /// Returns the runs claimed by a tick, and whether each is a catch-up run.
    fn claims(&mut self, now: UtcTime) -> Vec<(RunId, CatchUp)> {
        let commands = self.tick(now);
        commands.iter().filter_map(claim).map(|due| (due.request.run, due.request.catch_up)).collect()
    }

    /// Returns all claims, granting each immediately.
    fn all_claims(&mut self, now: UtcTime) -> Vec<(RunId, CatchUp)> {
        let mut asked = Vec::new();
        while let [(run, catch_up)] = self.claims(now)[..] {
            asked.push((run, catch_up));
            self.answer(now, run, granted());
        }
        asked
    }

    /// Answers the last claim of a run.
    fn answer(&mut self, now: UtcTime, run: RunId, outcome: ClaimOutcome) -> Vec<Command> {
        let mut out = Vec::new();
        let due = self.sent.iter().rfind(|due| due.request.run == run).expect("the run was claimed");
        let due = Due { in_doubt: due.in_doubt || self.in_doubt, ..due.clone() };
        self.planner.claim_answered(now, &due, outcome, &mut out);
        out
    }

    fn set_controls(&mut self, revision: u64, paused: bool) -> Vec<Command> {
        let (mut out, schedule) = (Vec::new(), self.schedule.clone());
        let controls = EffectiveControls { revision, paused, schedule };
        self.planner.controls_changed(&name(), controls, &mut out);
        out
    }
}

/// Returns the claim of a command.
fn claim(command: &Command) -> Option<&Due> {
    match command {
        Command::Claim(due) => Some(due),
        _ => None,
    }
}

fn missed(command: &Command) -> u32 {
    match command {
        Command::Skipped { reason: SkipReason::Missed, count, .. } => *count,
        _ => 0,
    }
}

fn skipped(reason: SkipReason, count: u32) -> Command {
    Command::Skipped { job: name(), reason, count }
}

#[test]
fn instant_is_claimed_once_and_not_early() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    assert_eq!(story.planner.wake_at(), Some(at(60)));
    assert_eq!(story.claims(at(59)), []);
    assert_eq!(story.claims(at(60)), [(run_at(60), CatchUp::No)]);
    assert_eq!(story.claims(at(61)), [], "one claim in flight");
    story.answer(at(61), run_at(60), granted());
    assert_eq!(story.claims(at(61)), []);
    assert_eq!(story.planner.wake_at(), Some(at(120)));
}

#[test]
fn follower_claims_nothing() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    story.planner.resigned();
    assert_eq!((story.tick(at(600)), story.planner.wake_at()), (vec![], None));
    story.planner.elected();
    assert_eq!(story.claims(at(600)), [], "not before the watermark is known");
    register(&mut story.planner, &name(), at(540));
    assert_eq!(story.claims(at(600)), [(run_at(600), CatchUp::No)]);
}

#[test]
fn early_claim_is_repeated_at_the_servers_time() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    story.claims(at(60));
    let wait = Duration::from_millis(700);
    story.answer(at(60), run_at(60), ClaimOutcome::Answered(Early { wait }));
    assert_eq!(story.planner.wake_at(), Some(UtcTime::from_millis(60_700)));
    assert_eq!(story.claims(UtcTime::from_millis(60_699)), []);
    assert_eq!(story.claims(UtcTime::from_millis(60_700)), [(run_at(60), CatchUp::No)]);
}

#[test]
fn latest_of_the_waiting_runs_is_kept() {
    for overlap in [Overlap::QueueOne, Overlap::CancelPrevious] {
        let mut story = Story::led("* * * * *", JobTerms { overlap, ..JobTerms::default() });
        story.claims(at(60));
        let commands = story.answer(at(60), run_at(60), ClaimOutcome::Answered(Busy { running: 1 }));
        let ends =
            if overlap == Overlap::CancelPrevious { vec![Command::CancelRunning(name())] } else { vec![] };
        assert_eq!(commands, ends);
        assert_eq!(story.claims(UtcTime::from_millis(60_249)), []);
        assert_eq!(story.claims(UtcTime::from_millis(60_250)), [(run_at(60), CatchUp::No)]);
        story.answer(at(61), run_at(60), ClaimOutcome::Answered(Busy { running: 1 }));
        let commands = story.tick(at(120));
        assert_eq!(commands[0], skipped(SkipReason::Queue, 1));
        assert!(
            matches!(&commands[1], Command::Claim(due) if due.request.run == run_at(120)),
            "{commands:?}"
        );
        story.answer(at(120), run_at(120), ClaimOutcome::Answered(Busy { running: 1 }));
        story.planner.run_ended(&name());
        assert_eq!(story.claims(at(120)), [(run_at(120), CatchUp::No)], "claimed when the run ends");
    }
}

#[test]
fn decided_elsewhere_is_not_claimed_again() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    story.claims(at(60));
    let commands = story.answer(at(60), run_at(60), ClaimOutcome::Answered(Duplicate));
    assert_eq!(commands, [skipped(SkipReason::DecidedElsewhere, 1)]);
    assert_eq!(story.claims(at(90)), []);
    register(&mut story.planner, &name(), at(180));
    assert_eq!(story.claims(at(180)), [], "the watermark is ahead");
    assert_eq!(story.claims(at(240)), [(run_at(240), CatchUp::No)]);
}

#[test]
fn data_loss_starts_nothing_twice() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    story.claims(at(60));
    let commands = story.answer(at(60), run_at(60), ClaimOutcome::Answered(Unregistered));
    assert_eq!(commands, [skipped(SkipReason::DataLoss, 1), Command::Register(name())]);
    assert_eq!(story.claims(at(61)), []);
    register(&mut story.planner, &name(), at(61));
    assert_eq!(story.claims(at(119)), []);
    assert_eq!(story.claims(at(120)), [(run_at(120), CatchUp::No)]);
}

#[test]
fn claim_of_an_earlier_leadership_changes_nothing() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    story.claims(at(60));
    story.planner.resigned();
    assert_eq!(story.answer(at(61), run_at(60), granted()), []);
    story.planner.elected();
    register(&mut story.planner, &name(), at(60));
    assert_eq!(story.claims(at(120)), [(run_at(120), CatchUp::No)]);
}

#[test]
fn paused_job_claims_nothing_until_it_is_resumed() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    assert_eq!(story.set_controls(1, true), [Command::Register(name())]);
    register(&mut story.planner, &name(), at(0));
    assert_eq!(story.tick(at(600)), [], "runs during a pause must not count as missed");
    assert_eq!(story.set_controls(2, false), [Command::Register(name())]);
    assert_eq!(story.set_controls(2, false), [], "a repeated command changes nothing");
    register(&mut story.planner, &name(), at(630));
    let commands = story.tick(at(660));
    assert!(
        matches!(&commands[..], [Command::Claim(due)] if due.request.run == run_at(660) && due.request.revision == 2),
        "{commands:?}"
    );
}

#[test]
fn outdated_controls_are_read_again() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    for answer in [ClaimReply::Outdated, ClaimReply::Paused] {
        story.tick(at(60));
        assert_eq!(story.answer(at(60), run_at(60), ClaimOutcome::Answered(answer)), [Command::ReadControls]);
        story.planner.run_ended(&name());
    }
}

#[test]
fn trigger_is_claimed_immediately_and_once() {
    let mut story = Story::led("0 12 * * *", JobTerms::default());
    let run = RunId::Triggered(*lock_core::backend::ProcessId::random().as_uuid());
    for _ in 0..2 {
        story.planner.triggered(&name(), run);
    }
    assert_eq!(story.all_claims(at(5)), [(run, CatchUp::No)]);
}

#[test]
fn draining_claims_nothing() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    story.planner.drain();
    assert_eq!((story.tick(at(600)), story.planner.wake_at()), (vec![], None));
}

#[test]
fn claim_in_doubt_is_repeated() {
    for misfire in [Misfire::Skip, Misfire::FireOnce] {
        let mut story = Story::led("* * * * *", JobTerms { misfire, ..JobTerms::default() });
        story.claims(at(60));
        story.in_doubt = true;
        story.answer(at(90), run_at(60), ClaimOutcome::Failed);
        let sent = Due { in_doubt: true, ..story.sent[0].clone() };
        assert_eq!(story.tick(at(95)), [Command::Claim(sent)], "{misfire:?}: with the same id");
    }
}

#[test]
fn pending_runs_stay_few_during_a_long_claim() {
    let mut story = Story::led("* * * * * *", JobTerms::default());
    for second in 1..7200 {
        story.tick(at(second));
        assert!(story.planner.jobs[&name()].pending.entries.len() <= 4, "at {second} s");
    }
}

#[test]
fn early_reply_overrides_a_fast_clock() {
    let mut story = Story::led("* * * * *", JobTerms { misfire: Misfire::Skip, ..JobTerms::default() });
    story.claims(at(60));
    story.answer(at(60), run_at(60), ClaimOutcome::Answered(Early { wait: Duration::from_secs(10) }));
    assert_eq!(story.claims(at(70)), [(run_at(60), CatchUp::No)]);
}

#[test]
fn missed_instants_are_skipped_before_the_next_claim() {
    let mut story = Story::led("* * * * *", JobTerms { misfire: Misfire::Skip, ..JobTerms::default() });
    let mut out = Vec::new();
    story.planner.tick(at(300), u32::MAX, &mut Budget::default(), &mut out);
    story.planner.tick(at(300), u32::MAX, &mut Budget::default(), &mut out);
    let [Command::Claim(due)] = &out[..] else { panic!("one request: {out:?}") };
    let skip = Skip { first: run_at(60), count: 4, detail: "missed".to_owned() };
    assert_eq!((due.request.run, &due.request.skip), (run_at(240), &Some(skip)));
    let due = due.clone();
    out.clear();
    story.planner.claim_answered(at(300), &due, ClaimOutcome::Failed, &mut out);
    assert_eq!(out, [], "nothing is counted before the store has decided it");
    assert_eq!(story.claims(at(301)), [(run_at(300), CatchUp::No)]);
    assert_eq!(story.missed, 4);
}

#[test]
fn skip_by_another_leader_is_not_counted_again() {
    let mut story = Story::led("* * * * *", JobTerms { misfire: Misfire::Skip, ..JobTerms::default() });
    let mut out = Vec::new();
    story.planner.tick(at(300), u32::MAX, &mut Budget::default(), &mut out);
    let Some(Command::Claim(due)) = out.pop() else { panic!("a request to skip") };
    story.planner.claim_answered(at(300), &due, ClaimOutcome::Answered(Duplicate), &mut out);
    assert_eq!(out, [skipped(SkipReason::DecidedElsewhere, 4)]);
}

#[test]
fn partly_decided_skip_is_counted_again() {
    let mut story = Story::led("* * * * *", JobTerms { misfire: Misfire::Skip, ..JobTerms::default() });
    let mut out = Vec::new();
    story.planner.tick(at(300), u32::MAX, &mut Budget::default(), &mut out);
    let Some(Command::Claim(due)) = out.pop() else { panic!("a request to skip") };
    story.planner.claim_answered(at(300), &due, ClaimOutcome::Answered(PartlyDecided), &mut out);
    assert_eq!(out, [Command::Register(name())], "nothing is counted before the watermark is known");
    register(&mut story.planner, &name(), at(120));
    assert_eq!(story.claims(at(300)), [(run_at(300), CatchUp::No)]);
    assert_eq!(story.missed, 2);
}

#[test]
fn waiting_run_backs_off_until_a_run_ends_here() {
    let terms = JobTerms { overlap: Overlap::QueueOne, ..JobTerms::default() };
    let mut story = Story::led("0 12 * * *", terms);
    let noon = 12 * 3600 * 1000;
    let (mut now, mut waits) = (UtcTime::from_millis(noon), Vec::new());
    for _ in 0..8 {
        assert_eq!(story.claims(now).len(), 1, "{waits:?}");
        story.answer(now, run_at(12 * 3600), ClaimOutcome::Answered(Busy { running: 1 }));
        let next = story.planner.wake_at().unwrap();
        waits.push(next.since(now).as_millis());
        now = next;
    }
    assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
    story.planner.run_ended(&name());
    assert_eq!(story.claims(now - Duration::from_secs(1)).len(), 1, "claimed immediately");
}

#[test]
fn expired_trigger_is_reported_and_not_claimed_again() {
    let mut story = Story::led("0 12 * * *", JobTerms::default());
    let run = RunId::Triggered(*lock_core::backend::ProcessId::random().as_uuid());
    story.planner.triggered(&name(), run);
    story.claims(at(5));
    assert_eq!(
        story.answer(at(5), run, ClaimOutcome::Answered(ClaimReply::Expired)),
        [skipped(SkipReason::Expired, 1)]
    );
    assert_eq!(story.claims(at(6)), []);
}

#[test]
fn watermark_of_another_schedule_is_ignored() {
    let mut story = Story::led("* * * * *", JobTerms::default());
    let before = story.planner.registration(&name()).unwrap();
    let mut out = Vec::new();
    let schedule = Schedule::cron("*/5 * * * *").unwrap();
    let controls = EffectiveControls { revision: 1, paused: false, schedule };
    story.planner.controls_changed(&name(), controls, &mut out);
    story.planner.registered(&before, at(0), at(0));
    assert_eq!(story.claims(at(600)), [], "its own is not known yet");
    register(&mut story.planner, &name(), at(590));
    assert_eq!(story.claims(at(600)), [(run_at(600), CatchUp::No)]);
}
