//! The planner: instants that come, claims, and answers to them.

mod catching_up;

use super::*;
use crate::options::Misfire;
use ClaimReply::{Busy, Duplicate, Early, Unregistered};
use lock_core::FencingToken;

const JOB: &str = "job";

fn at(secs: i64) -> UtcTime {
    UtcTime::from_millis(secs * 1000)
}

fn run_at(secs: u64) -> RunId {
    RunId::at_millis(secs * 1000)
}

fn name() -> LockName {
    LockName::new(JOB).unwrap()
}

fn granted() -> Answer {
    Answer::Ledger(ClaimReply::Claimed { token: FencingToken::new(1), attempt: 1, failures: 0 })
}

struct Story {
    planner: Planner,
    schedule: Schedule,
    /// With what requests come back that were not all answered.
    in_doubt: Option<ClaimId>,
    /// The instants that were told as missed.
    missed: u32,
}

/// The store has this watermark for a job.
fn register(planner: &mut Planner, name: &LockName, watermark: UtcTime) {
    let registration = planner.registration(name).unwrap();
    planner.registered(&registration, watermark);
}

impl Story {
    /// A leader since 0 s, of a job on these terms that was registered then.
    fn led(schedule: &str, terms: Terms) -> Self {
        let schedule = Schedule::cron(schedule).unwrap();
        let mut planner = Planner::default();
        planner.add(at(0), name(), schedule.clone(), terms);
        planner.led();
        register(&mut planner, &name(), at(0));
        Self { planner, schedule, in_doubt: None, missed: 0 }
    }

    /// The store skips at once what it is asked to skip.
    fn tick(&mut self, now: UtcTime) -> Vec<Command> {
        let mut out = Vec::new();
        loop {
            self.planner.tick(now, &mut Budget::default(), &mut out);
            let is_row = |command: &Command| matches!(command, Command::Claim(due) if due.skip.is_some());
            let Some(row) = out.iter().position(is_row) else { break };
            let Command::Claim(due) = out.remove(row) else { unreachable!("it is a claim") };
            self.planner.answered(now, &due, Answer::Ledger(ClaimReply::Skipped), &mut out);
        }
        self.missed += out.iter().map(missed).sum::<u32>();
        out
    }

    /// The claims of a tick: instant in seconds, whether it makes up for a missed one.
    fn asks(&mut self, now: UtcTime) -> Vec<(RunId, CatchUp)> {
        let claims = self.tick(now).into_iter().filter_map(|command| match command {
            Command::Claim(due) | Command::StartHere(due) => Some((due.run, due.catch_up)),
            _ => None,
        });
        claims.collect()
    }

    /// All that is claimed if every claim is granted at once.
    fn all_asked(&mut self, now: UtcTime) -> Vec<(RunId, CatchUp)> {
        let mut asked = Vec::new();
        while let [(run, catch_up)] = self.asks(now)[..] {
            asked.push((run, catch_up));
            self.answer(now, run, granted());
        }
        asked
    }

    fn answer(&mut self, now: UtcTime, run: RunId, answer: Answer) -> Vec<Command> {
        let (mut out, revision) = (Vec::new(), self.planner.jobs[&name()].revision);
        let due = Due {
            job: name(),
            run,
            catch_up: CatchUp::No,
            overlap: self.planner.jobs[&name()].terms.overlap,
            skip: None,
            schedule: self.schedule.identity(),
            revision,
            in_doubt: self.in_doubt,
        };
        self.planner.answered(now, &due, answer, &mut out);
        out
    }

    fn order(&mut self, revision: u64, paused: bool) -> Vec<Command> {
        let mut out = Vec::new();
        self.planner.ordered(&name(), revision, paused, self.schedule.clone(), &mut out);
        out
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
fn each_instant_is_asked_for_once_and_not_before_it_has_come() {
    let mut story = Story::led("* * * * *", Terms::default());
    assert_eq!(story.planner.wake_at(), Some(at(60)));
    assert_eq!(story.asks(at(59)), []);
    assert_eq!(story.asks(at(60)), [(run_at(60), CatchUp::No)]);
    assert_eq!(story.asks(at(61)), [], "one claim in flight");
    story.answer(at(61), run_at(60), granted());
    assert_eq!(story.asks(at(61)), []);
    assert_eq!(story.planner.wake_at(), Some(at(120)));
}

#[test]
fn who_does_not_lead_asks_for_nothing() {
    let mut story = Story::led("* * * * *", Terms::default());
    story.planner.resigned();
    assert_eq!((story.tick(at(600)), story.planner.wake_at()), (vec![], None));
    story.planner.led();
    assert_eq!(story.asks(at(600)), [], "not before the watermark is known");
    register(&mut story.planner, &name(), at(540));
    assert_eq!(story.asks(at(600)), [(run_at(600), CatchUp::No)]);
}

#[test]
fn an_early_claim_is_repeated_when_the_server_says() {
    let mut story = Story::led("* * * * *", Terms::default());
    story.asks(at(60));
    let wait = Duration::from_millis(700);
    story.answer(at(60), run_at(60), Answer::Ledger(Early { wait }));
    assert_eq!(story.planner.wake_at(), Some(UtcTime::from_millis(60_700)));
    assert_eq!(story.asks(UtcTime::from_millis(60_699)), []);
    assert_eq!(story.asks(UtcTime::from_millis(60_700)), [(run_at(60), CatchUp::No)]);
}

#[test]
fn of_what_waits_for_a_run_to_end_the_latest_is_kept() {
    for overlap in [Overlap::QueueOne, Overlap::CancelPrevious] {
        let mut story = Story::led("* * * * *", Terms { overlap, ..Terms::default() });
        story.asks(at(60));
        let told = story.answer(at(60), run_at(60), Answer::Ledger(Busy { running: 1 }));
        let ends =
            if overlap == Overlap::CancelPrevious { vec![Command::EndRunning(name())] } else { vec![] };
        assert_eq!(told, ends);
        assert_eq!(story.asks(UtcTime::from_millis(60_249)), []);
        assert_eq!(story.asks(UtcTime::from_millis(60_250)), [(run_at(60), CatchUp::No)]);
        story.answer(at(61), run_at(60), Answer::Ledger(Busy { running: 1 }));
        let told = story.tick(at(120));
        assert_eq!(told[0], skipped(SkipReason::Queue, 1));
        assert!(matches!(&told[1], Command::Claim(due) if due.run == run_at(120)), "{told:?}");
        story.answer(at(120), run_at(120), Answer::Ledger(Busy { running: 1 }));
        story.planner.ended(&name());
        assert_eq!(story.asks(at(120)), [(run_at(120), CatchUp::No)], "at once when the run ends");
    }
}

#[test]
fn what_another_leader_decided_is_not_asked_for_again() {
    let mut story = Story::led("* * * * *", Terms::default());
    story.asks(at(60));
    let told = story.answer(at(60), run_at(60), Answer::Ledger(Duplicate));
    assert_eq!(told, [skipped(SkipReason::DecidedElsewhere, 1)]);
    assert_eq!(story.asks(at(90)), []);
    register(&mut story.planner, &name(), at(180));
    assert_eq!(story.asks(at(180)), [], "a watermark that is ahead");
    assert_eq!(story.asks(at(240)), [(run_at(240), CatchUp::No)]);
}

#[test]
fn a_store_that_lost_its_data_makes_nothing_run_twice() {
    let mut story = Story::led("* * * * *", Terms::default());
    story.asks(at(60));
    let told = story.answer(at(60), run_at(60), Answer::Ledger(Unregistered));
    assert_eq!(told, [skipped(SkipReason::DataLoss, 1), Command::Register(name())]);
    assert_eq!(story.asks(at(61)), []);
    register(&mut story.planner, &name(), at(61));
    assert_eq!(story.asks(at(119)), []);
    assert_eq!(story.asks(at(120)), [(run_at(120), CatchUp::No)]);
}

#[test]
fn an_answer_to_a_claim_of_an_earlier_leadership_changes_nothing() {
    let mut story = Story::led("* * * * *", Terms::default());
    story.asks(at(60));
    story.planner.resigned();
    assert_eq!(story.answer(at(61), run_at(60), granted()), []);
    story.planner.led();
    register(&mut story.planner, &name(), at(60));
    assert_eq!(story.asks(at(120)), [(run_at(120), CatchUp::No)]);
}

#[test]
fn a_paused_job_asks_for_nothing_and_begins_anew() {
    let mut story = Story::led("* * * * *", Terms::default());
    assert_eq!(story.order(1, true), [Command::Register(name())]);
    register(&mut story.planner, &name(), at(0));
    assert_eq!(story.tick(at(600)), [], "and what is not run while paused is not missed");
    assert_eq!(story.order(2, false), [Command::Register(name())]);
    assert_eq!(story.order(2, false), [], "twice is once");
    register(&mut story.planner, &name(), at(630));
    let told = story.tick(at(660));
    assert!(
        matches!(&told[..], [Command::Claim(due)] if due.run == run_at(660) && due.revision == 2),
        "{told:?}"
    );
}

#[test]
fn orders_that_are_not_known_are_read_first() {
    let mut story = Story::led("* * * * *", Terms::default());
    for answer in [ClaimReply::Outdated, ClaimReply::Paused] {
        story.tick(at(60));
        assert_eq!(story.answer(at(60), run_at(60), Answer::Ledger(answer)), [Command::ReadOrders]);
        story.planner.ended(&name());
    }
}

#[test]
fn a_trigger_is_asked_for_at_once_and_once() {
    let mut story = Story::led("0 12 * * *", Terms::default());
    let run = RunId::Triggered(*lock_core::ProcessId::random().as_uuid());
    for _ in 0..2 {
        story.planner.triggered(&name(), run);
    }
    assert_eq!(story.all_asked(at(5)), [(run, CatchUp::No)]);
}

#[test]
fn while_draining_nothing_is_asked_for() {
    let mut story = Story::led("* * * * *", Terms::default());
    story.planner.drain();
    assert_eq!((story.tick(at(600)), story.planner.wake_at()), (vec![], None));
}

#[test]
fn a_job_of_each_node_runs_without_a_leader_and_keeps_its_own_overlap() {
    let per_node = |overlap| Terms { scope: Scope::PerNode, overlap, ..Terms::default() };
    let mut planner = Planner::default();
    let schedule = Schedule::cron("* * * * *").unwrap();
    planner.add(at(0), name(), schedule.clone(), per_node(Overlap::Skip));
    let mut story = Story { planner, schedule, in_doubt: None, missed: 0 };
    assert_eq!(story.asks(at(60)), [(run_at(60), CatchUp::No)]);
    assert_eq!(story.tick(at(120)), [skipped(SkipReason::Overlap, 1)]);
    story.planner.ended(&name());
    assert_eq!(story.asks(at(180)), [(run_at(180), CatchUp::No)]);
}

#[test]
fn a_claim_that_may_still_arrive_is_repeated_and_not_given_up() {
    for misfire in [Misfire::Skip, Misfire::FireOnce] {
        let mut story = Story::led("* * * * *", Terms { misfire, ..Terms::default() });
        let claim = ClaimId::random();
        story.asks(at(60));
        story.in_doubt = Some(claim);
        story.answer(at(90), run_at(60), Answer::Failed);
        let told = story.tick(at(95));
        assert!(
            matches!(&told[..], [Command::Claim(due)] if due.run == run_at(60) && due.in_doubt == Some(claim)),
            "{misfire:?}: {told:?}"
        );
    }
}

#[test]
fn an_agenda_stays_short_while_a_claim_is_under_way_for_hours() {
    let mut story = Story::led("* * * * * *", Terms::default());
    for second in 1..7200 {
        story.tick(at(second));
        assert!(story.planner.jobs[&name()].agenda.entries.len() <= 4, "at {second} s");
    }
}

#[test]
fn what_the_store_says_is_early_is_not_late_by_a_clock_that_is_ahead() {
    let mut story = Story::led("* * * * *", Terms { misfire: Misfire::Skip, ..Terms::default() });
    story.asks(at(60));
    story.answer(at(60), run_at(60), Answer::Ledger(Early { wait: Duration::from_secs(10) }));
    assert_eq!(story.asks(at(70)), [(run_at(60), CatchUp::No)]);
}

#[test]
fn an_instant_that_is_missed_is_skipped_in_the_store_before_the_next_is_asked_for() {
    let mut story = Story::led("* * * * *", Terms { misfire: Misfire::Skip, ..Terms::default() });
    let mut out = Vec::new();
    story.planner.tick(at(300), &mut Budget::default(), &mut out);
    story.planner.tick(at(300), &mut Budget::default(), &mut out);
    let [Command::Claim(due)] = &out[..] else { panic!("one request: {out:?}") };
    let skip = Skip { first: run_at(60), count: 4, detail: "missed".to_owned() };
    assert_eq!((due.run, &due.skip), (run_at(240), &Some(skip)));
    let due = due.clone();
    out.clear();
    story.planner.answered(at(300), &due, Answer::Failed, &mut out);
    assert_eq!(out, [], "nothing is told before the store has decided it");
    assert_eq!(story.asks(at(301)), [(run_at(300), CatchUp::No)]);
    assert_eq!(story.missed, 4);
}

#[test]
fn an_instant_that_another_leader_skipped_is_not_counted_again() {
    let mut story = Story::led("* * * * *", Terms { misfire: Misfire::Skip, ..Terms::default() });
    let mut out = Vec::new();
    story.planner.tick(at(300), &mut Budget::default(), &mut out);
    let Some(Command::Claim(due)) = out.pop() else { panic!("a request to skip") };
    story.planner.answered(at(300), &due, Answer::Ledger(Duplicate), &mut out);
    assert_eq!(out, [skipped(SkipReason::DecidedElsewhere, 4)]);
}

#[test]
fn a_run_that_waits_is_asked_for_less_and_less_often_until_a_run_ends_here() {
    let terms = Terms { overlap: Overlap::QueueOne, ..Terms::default() };
    let mut story = Story::led("0 12 * * *", terms);
    let noon = 12 * 3600 * 1000;
    let (mut now, mut waits) = (UtcTime::from_millis(noon), Vec::new());
    for _ in 0..8 {
        assert_eq!(story.asks(now).len(), 1, "{waits:?}");
        story.answer(now, run_at(12 * 3600), Answer::Ledger(Busy { running: 1 }));
        let next = story.planner.wake_at().unwrap();
        waits.push(next.since(now).as_millis());
        now = next;
    }
    assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
    story.planner.ended(&name());
    assert_eq!(story.asks(now.saturating_sub(Duration::from_secs(1))).len(), 1, "at once");
}

#[test]
fn a_trigger_that_expired_is_told_and_not_asked_for_again() {
    let mut story = Story::led("0 12 * * *", Terms::default());
    let run = RunId::Triggered(*lock_core::ProcessId::random().as_uuid());
    story.planner.triggered(&name(), run);
    story.asks(at(5));
    assert_eq!(
        story.answer(at(5), run, Answer::Ledger(ClaimReply::Expired)),
        [skipped(SkipReason::Expired, 1)]
    );
    assert_eq!(story.asks(at(6)), []);
}

#[test]
fn a_watermark_of_another_schedule_is_not_taken() {
    let mut story = Story::led("* * * * *", Terms::default());
    let before = story.planner.registration(&name()).unwrap();
    let mut out = Vec::new();
    let schedule = Schedule::cron("*/5 * * * *").unwrap();
    story.planner.ordered(&name(), 1, false, schedule, &mut out);
    story.planner.registered(&before, at(0));
    assert_eq!(story.asks(at(600)), [], "its own is not known yet");
    register(&mut story.planner, &name(), at(590));
    assert_eq!(story.asks(at(600)), [(run_at(600), CatchUp::No)]);
}
