//! The stories that taught the rules. What every store must answer is told by the conformance suite; here is what only the
//! rules can show: the exact moment.

use super::*;
use crate::backend::ledger::{
    ClaimRequest, Claimed, EndRequest, Ended, GroupName, JobId, KeepRun, KeptRun, Order, OverlapRule, Then,
};

const NOW: ServerTime = ServerTime::from_micros(1_767_225_600_000_000);
const LEASE: Duration = Duration::from_secs(30);

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

struct Story {
    ledger: GroupLedger,
    job: JobId,
}

impl Story {
    /// A job that was registered at 0 s.
    fn new() -> Self {
        let job = JobId { group: GroupName::new("g").unwrap(), name: LockName::new("j").unwrap() };
        let mut ledger = GroupLedger::default();
        ledger.register(NOW, std::slice::from_ref(&job.name));
        Self { ledger, job }
    }

    fn request(&self, scheduled: u64, epoch: u64) -> ClaimRequest {
        ClaimRequest {
            job: self.job.clone(),
            run: RunId::Scheduled(NOW + secs(scheduled)),
            claim: ClaimId::random(),
            again: None,
            epoch: FencingToken::new(epoch),
            revision: 0,
            tolerance: Duration::ZERO,
            overlap: OverlapRule::Skip,
            lease: LEASE,
            node: String::new(),
            catch_up: CatchUp::No,
            missed: 0,
        }
    }

    fn claim(&mut self, at: Duration, request: &ClaimRequest) -> Claimed {
        self.ledger.claim(NOW + at, request)
    }

    fn end(&mut self, at: Duration, request: &ClaimRequest, then: Then) -> Ended {
        let (run, claim, outcome) = (request.run, request.claim, RunOutcome::Failed);
        let end = EndRequest { job: self.job.clone(), run, claim, outcome, detail: String::new(), then };
        self.ledger.end(NOW + at, &end)
    }
}

#[test]
fn no_run_starts_a_millisecond_before_its_instant() {
    let mut story = Story::new();
    let request = story.request(60, 1);
    let before = secs(60) - Duration::from_millis(1);
    assert_eq!(story.claim(before, &request), Claimed::Early { wait: Duration::from_millis(1) });
    assert!(matches!(story.claim(secs(60), &request), Claimed::Claimed { attempt: 1, .. }));
}

#[test]
fn the_reply_is_lost_and_the_leader_changes_and_the_run_is_neither_lost_nor_doubled() {
    let mut story = Story::new();
    let (lost, next) = (story.request(60, 1), story.request(120, 2));
    let first = story.claim(secs(60), &lost);
    story.end(secs(61), &lost, Then::Over);
    assert!(matches!(story.claim(secs(120), &next), Claimed::Claimed { .. }), "another leads");
    assert_eq!(story.claim(secs(121), &lost), first, "the old leader asks again");
    assert_eq!(
        story.claim(secs(121), &story.request(60, 2)),
        Claimed::Superseded,
        "and the new one does not run it"
    );
    assert_eq!(
        story.claim(secs(121), &story.request(180, 1)),
        Claimed::Fenced { epoch: FencingToken::new(2) }
    );
}

#[test]
fn a_leader_whose_counter_fell_is_told_where_to_go_on() {
    let mut story = Story::new();
    story.claim(secs(60), &story.request(60, 900));
    let Claimed::Fenced { epoch } = story.claim(secs(120), &story.request(120, 7)) else {
        panic!("an epoch that fell is fenced")
    };
    story.end(secs(120), &story.request(60, 900), Then::Over);
    assert_eq!(epoch, FencingToken::new(900), "with it as the floor, the next leadership is later");
}

#[test]
fn an_attempt_is_over_after_its_last_millisecond() {
    let mut story = Story::new();
    let request = story.request(60, 1);
    story.claim(secs(60), &request);
    let item = KeepRun { job: story.job.name.clone(), run: request.run, claim: request.claim, lease: LEASE };
    let end = secs(60) + LEASE;
    assert_eq!(story.ledger.clone().keep(NOW + end, &item), KeptRun::Kept);
    let over = end + Duration::from_millis(1);
    assert_eq!(story.ledger.keep(NOW + over, &item), KeptRun::Gone);
    assert_eq!(story.ledger.open(NOW + over)[0].state, RunState::Orphaned);
    assert_eq!(story.end(over, &request, Then::Over), Ended::Recorded, "it may still say how it ended");
}

#[test]
fn tokens_grow_over_the_loss_of_the_data() {
    let mut story = Story::new();
    let Claimed::Claimed { token: before, .. } = story.claim(secs(60), &story.request(60, 1)) else {
        panic!("it is due")
    };
    let mut emptied = Story::new();
    let at = secs(60) + Duration::from_micros(1);
    let Claimed::Claimed { token: after, .. } = emptied.claim(at, &emptied.request(60, 1)) else {
        panic!("it is due")
    };
    assert!(after > before);
}

#[test]
fn a_job_that_is_paused_for_a_week_does_not_make_it_up() {
    let mut story = Story::new();
    story.ledger.order(NOW, &story.job.name, &Order::Pause);
    story.ledger.order(NOW + secs(604_800), &story.job.name, &Order::Resume);
    let missed = ClaimRequest { revision: 2, ..story.request(604_799, 1) };
    assert_eq!(story.claim(secs(604_801), &missed), Claimed::Superseded);
    let due = ClaimRequest { revision: 2, ..story.request(604_801, 1) };
    assert!(matches!(story.claim(secs(604_801), &due), Claimed::Claimed { .. }));
}
