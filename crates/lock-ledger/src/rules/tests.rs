//! Tests of the rules at exact times. The conformance suite covers the replies that every store
//! must return.

use super::GroupLedger;
use crate::{
    AddReply, AddRequest, AfterAttempt, CatchUp, ClaimId, ClaimReply, ClaimRequest, CommandReply,
    DEFAULT_HISTORY, Definition, EndReply, EndRequest, GroupName, JobCommand, JobId, MAX_INSTANCE_PAYLOADS,
    MAX_SCHEDULES, OverlapRule, PauseNote, Registration, Removal, RenewRun, RunId, RunOutcome, RunRenewal,
    RunState,
};
use lock_core::{LockName, clock::UtcTime};
use std::time::Duration;

const NOW: UtcTime = UtcTime::from_micros(1_767_225_600_000_000);
const SCHEDULE: u64 = 7;
const LEASE: Duration = Duration::from_secs(30);

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

struct Story {
    ledger: GroupLedger,
    job: JobId,
}

impl Story {
    /// Creates a story with a job registered at 0 s.
    fn new() -> Self {
        let job = JobId { group: GroupName::new("g").unwrap(), name: LockName::new("j").unwrap() };
        let mut ledger = GroupLedger::default();
        ledger.register(NOW, &[Registration { job: job.name.clone(), schedule: SCHEDULE }]);
        Self { ledger, job }
    }

    /// Registers a job with a schedule at this second, and returns the second up to which it is
    /// decided.
    fn register(&mut self, at: u64, name: &str, schedule: u64) -> u64 {
        let job = LockName::new(name).unwrap();
        let answer = self.ledger.register(NOW + secs(at), &[Registration { job, schedule }]);
        answer[0].watermark.since(NOW).as_secs()
    }

    fn request(&self, scheduled: u64) -> ClaimRequest {
        ClaimRequest {
            job: self.job.clone(),
            run: RunId::Scheduled(NOW + secs(scheduled)),
            claim: ClaimId::random(),
            retry_of: None,
            skip: None,
            after: None,
            not_after: None,
            schedule: SCHEDULE,
            revision: 0,
            definition: 0,
            overlap: OverlapRule::Skip,
            pool: None,
            lease: LEASE,
            node: String::new(),
            catch_up: CatchUp::No,
            history: DEFAULT_HISTORY,
        }
    }

    /// Executes a command that must be accepted, and returns the revision.
    fn command(&mut self, at: u64, command: &JobCommand) -> u64 {
        match self.ledger.command(NOW + secs(at), &self.job.name, command) {
            CommandReply::Accepted { revision } => revision,
            other => panic!("the job is registered: {other:?}"),
        }
    }

    fn claim(&mut self, at: Duration, request: &ClaimRequest) -> ClaimReply {
        self.ledger.claim(NOW + at, request)
    }

    fn end(&mut self, at: Duration, request: &ClaimRequest, then: AfterAttempt) -> EndReply {
        let (run, claim, outcome) = (request.run, request.claim, RunOutcome::Failed);
        let end = EndRequest {
            job: self.job.clone(),
            run,
            claim,
            outcome,
            detail: String::new(),
            then,
            history: DEFAULT_HISTORY,
        };
        self.ledger.end(NOW + at, &end)
    }
}

#[test]
fn no_run_starts_before_its_scheduled_time() {
    let mut story = Story::new();
    let request = story.request(60);
    let before = secs(60) - Duration::from_millis(1);
    assert_eq!(story.claim(before, &request), ClaimReply::Early { wait: Duration::from_millis(1) });
    assert!(matches!(story.claim(secs(60), &request), ClaimReply::Claimed { attempt: 1, .. }));
}

#[test]
fn lost_reply_across_leader_change_starts_once() {
    let mut story = Story::new();
    let (lost, next) = (story.request(60), story.request(120));
    let first = story.claim(secs(60), &lost);
    assert_eq!(story.claim(secs(80), &lost), first, "the old leader repeats its claim");
    assert!(
        matches!(story.claim(secs(120), &next), ClaimReply::Claimed { .. }),
        "another leader claims the next run"
    );
    assert_eq!(story.claim(secs(121), &lost), ClaimReply::Gone, "another run may have started");
    assert_eq!(
        story.claim(secs(121), &story.request(60)),
        ClaimReply::Duplicate,
        "the new leader does not run it"
    );
}

#[test]
fn attempt_ends_after_its_last_millisecond() {
    let mut story = Story::new();
    let request = story.request(60);
    story.claim(secs(60), &request);
    let item = RenewRun { job: story.job.name.clone(), run: request.run, claim: request.claim, lease: LEASE };
    let end = secs(60) + LEASE;
    assert_eq!(story.ledger.clone().renew(NOW + end, &item), RunRenewal::Renewed);
    let over = end + Duration::from_millis(1);
    assert_eq!(story.ledger.renew(NOW + over, &item), RunRenewal::Gone);
    assert_eq!(story.ledger.open_runs(NOW + over)[0].state, RunState::Orphaned);
    assert_eq!(
        story.end(over, &request, AfterAttempt::Finish),
        EndReply::Recorded,
        "the outcome can still be recorded"
    );
}

#[test]
fn tokens_increase_across_data_loss() {
    let mut story = Story::new();
    let ClaimReply::Claimed { token: before, .. } = story.claim(secs(60), &story.request(60)) else {
        panic!("the run is due")
    };
    let mut emptied = Story::new();
    let at = secs(60) + Duration::from_micros(1);
    let ClaimReply::Claimed { token: after, .. } = emptied.claim(at, &emptied.request(60)) else {
        panic!("the run is due")
    };
    assert!(after > before);
}

#[test]
fn revisions_increase_across_data_loss() {
    let (mut story, mut emptied) = (Story::new(), Story::new());
    for _ in 0..3 {
        story.command(60, &JobCommand::Reset);
    }
    let known = story.command(61, &JobCommand::Pause(PauseNote::default()));
    let after: Vec<_> = (62..70).map(|at| emptied.command(at, &JobCommand::Reset)).collect();
    assert!(after.iter().all(|revision| *revision > known), "{after:?} after {known}");
}

#[test]
fn resumed_job_does_not_run_missed_times() {
    let mut story = Story::new();
    story.command(0, &JobCommand::Pause(PauseNote::default()));
    let revision = story.command(604_800, &JobCommand::Resume);
    let missed = ClaimRequest { revision, ..story.request(604_799) };
    assert_eq!(story.claim(secs(604_801), &missed), ClaimReply::Superseded);
    let due = ClaimRequest { revision, ..story.request(604_801) };
    assert!(matches!(story.claim(secs(604_801), &due), ClaimReply::Claimed { .. }));
}

#[test]
fn returning_job_restarts_except_after_a_full_outage() {
    let mut story = Story::new();
    story.register(0, "other", SCHEDULE);
    // After a year without a leader, missed times are left to the misfire policy.
    assert_eq!(story.register(31_536_000, "j", SCHEDULE), 0);
    // The same holds if the leader of other jobs returns first.
    story.register(2 * 31_536_000, "other", SCHEDULE);
    assert_eq!(story.register(2 * 31_536_000 + 1, "j", SCHEDULE), 0);
    let mut story = Story::new();
    for minute in 1..=12 {
        story.register(minute * 60, "other", SCHEDULE);
    }
    assert_eq!(
        story.register(13 * 60, "j", SCHEDULE),
        13 * 60,
        "absent for longer than `ABSENT_AFTER` while others led"
    );
    assert_eq!(story.register(14 * 60, "j", SCHEDULE), 13 * 60);
}

#[test]
fn next_leader_within_minutes_keeps_the_watermark() {
    let mut story = Story::new();
    story.register(60, "j", SCHEDULE);
    story.register(540, "other", SCHEDULE);
    assert_eq!(story.register(600, "j", SCHEDULE), 0);
}

#[test]
fn clock_that_was_ahead_makes_no_job_absent() {
    let mut story = Story::new();
    story.register(60, "j", SCHEDULE);
    story.register(31_536_000, "other", SCHEDULE);
    for minute in 2..5 {
        assert_eq!(story.register(minute * 60, "j", SCHEDULE), 0, "minute {minute}");
    }
}

#[test]
fn start_times_of_the_latest_schedules_are_kept() {
    let mut story = Story::new();
    for schedule in 0..20 {
        story.register(10 + schedule, "j", 100 + schedule);
    }
    assert_eq!(story.ledger.jobs[&story.job.name].since.len(), MAX_SCHEDULES);
    assert_eq!(story.register(40, "j", 119), 29, "the latest schedule");
    assert_eq!(story.register(40, "j", 100), 40, "the first schedule was dropped");
}

#[test]
fn reset_recovers_from_a_clock_that_was_ahead() {
    let mut story = Story::new();
    const YEAR: u64 = 31_536_000;
    let request = story.request(YEAR);
    assert!(matches!(story.claim(secs(YEAR), &request), ClaimReply::Claimed { .. }));
    assert_eq!(story.register(61, "j", SCHEDULE), YEAR);
    assert_eq!(story.claim(secs(120), &story.request(120)), ClaimReply::Superseded);
    let revision = story.command(130, &JobCommand::Reset);
    assert_eq!(story.register(131, "j", SCHEDULE), 130);
    let due = ClaimRequest { revision, ..story.request(180) };
    assert!(
        matches!(story.claim(secs(180), &due), ClaimReply::Claimed { attempt: 1, .. }),
        "the lease of the future run has also ended"
    );
    let repeated = ClaimRequest { revision, ..story.request(YEAR) };
    assert_eq!(
        story.claim(secs(YEAR), &repeated),
        ClaimReply::Duplicate,
        "the future run is still in the history"
    );
}

#[test]
fn payloads_of_a_group_are_bounded_in_sum() {
    let mut story = Story::new();
    let add = |story: &mut Story, name: &str, length: usize| {
        let job = JobId { name: LockName::new(name).unwrap(), ..story.job.clone() };
        let definition = Definition { schedule: "@daily".to_owned(), dst: String::new(), once: None };
        let request = AddRequest { job, definition, payload: "x".repeat(length), added_by: String::new() };
        story.ledger.add(NOW, &request)
    };
    let half = MAX_INSTANCE_PAYLOADS / 2;
    assert_eq!(add(&mut story, "k/a", half), AddReply::Added);
    assert_eq!(add(&mut story, "k/b", half + 1), AddReply::PayloadsTooLarge);
    assert_eq!(add(&mut story, "k/b", half), AddReply::Added);
    assert_eq!(add(&mut story, "k/c", 1), AddReply::PayloadsTooLarge);
    assert_eq!(add(&mut story, "k/c", 0), AddReply::Added);
    assert_eq!(add(&mut story, "k/b", half - 1), AddReply::Changed, "a shorter payload makes room");
    assert_eq!(add(&mut story, "k/c", 1), AddReply::Changed);
    story.ledger.remove(NOW, &LockName::new("k/a").unwrap(), Removal::KeepRecord);
    assert_eq!(add(&mut story, "k/d", half), AddReply::Added, "a removed instance makes room");
    assert_eq!(add(&mut story, "k/e", 1), AddReply::PayloadsTooLarge);
}
