//! Spread runs: those that a node starts without leading, and those that the leader leaves to other nodes.

use super::*;
use lock_ledger::Registration;
use uuid::Uuid;

const PAUSE: Duration = Duration::from_millis(500);

/// One of two nodes, with a spread job that runs every minute.
struct Spread {
    planner: Planner,
    this: Uuid,
    other: Uuid,
}

impl Spread {
    fn follower(terms: JobTerms) -> Self {
        let mut planner = super::planner();
        planner.add(at(0), name(), Schedule::cron("* * * * *").unwrap(), terms);
        let [this, other] = [1, 2].map(Uuid::from_u128);
        let mut spread = Self { planner, this, other };
        assert_eq!(spread.claims(at(0), 1), []);
        spread
    }

    fn leader(terms: JobTerms) -> Self {
        let mut spread = Self::follower(terms);
        spread.planner.elected();
        register(&mut spread.planner, &name(), at(0));
        spread
    }

    /// Returns the claims of a tick.
    fn claims(&mut self, now: UtcTime, room: u32) -> Vec<Due> {
        let mut out = Vec::new();
        self.heartbeat(now, vec![self.other]);
        self.planner.tick(now, room, &mut Budget::default(), &mut out);
        out.iter().filter_map(claim).cloned().collect()
    }

    fn heartbeat(&mut self, now: UtcTime, others: Vec<Uuid>) {
        self.planner.peers_read(Peers { this: self.this, others, read_at: now });
    }

    fn answer(&mut self, now: UtcTime, due: &Due, reply: ClaimReply) -> Vec<Command> {
        let mut out = Vec::new();
        self.planner.claim_answered(now, due, ClaimOutcome::Answered(reply), &mut out);
        out
    }

    /// Returns the first minute at or after `from`, in seconds, for which this node comes first, or else the other one.
    fn minute(&self, from: u64, is_ours: bool) -> u64 {
        let peers = Peers { this: self.this, others: vec![self.other], read_at: at(0) };
        let is_it = |minute: &u64| peers.is_first(&name(), at(*minute)) == is_ours;
        (from..).step_by(60).find(is_it).unwrap()
    }

    /// Ticks one second before this minute, so only one run becomes due at the minute.
    fn wait_for(&mut self, minute: u64) {
        self.claims(at(minute - 1), 1);
    }

    fn registration(&self) -> Registration {
        self.planner.registration(&name()).unwrap()
    }

    fn observed(&mut self, watermark: u64, now: UtcTime) {
        let (registration, mut out) = (self.registration(), Vec::new());
        self.planner.observed(&registration, Some(at(watermark)), now, &mut out);
        assert_eq!(out, []);
    }
}

fn ms(secs: u64, millis: u64) -> UtcTime {
    at(secs) + Duration::from_millis(millis)
}

#[test]
fn first_node_claims_at_once_with_the_previous_instant() {
    let mut spread = Spread::follower(JobTerms::default());
    let (ours, other) = (spread.minute(60, true), spread.minute(60, false));
    for minute in (60..=ours.max(other)).step_by(60) {
        let now = at(minute);
        let claims = spread.claims(now, 1);
        let is_ours = spread.minute(minute, true) == minute;
        assert_eq!(claims.len(), usize::from(is_ours));
        for due in claims {
            assert_eq!((due.request.run, due.request.after), (run_at(minute), Some(at(minute - 60))));
            assert_eq!(spread.answer(now, &due, ClaimReply::Behind), [], "left to the leader");
            assert_eq!(spread.claims(ms(minute, 900), 1), []);
        }
    }
}

#[test]
fn run_of_a_dead_node_goes_to_the_next_node() {
    let mut spread = Spread::follower(JobTerms::default());
    let minute = spread.minute(60, false);
    spread.wait_for(minute);
    assert_eq!(spread.claims(at(minute), 1), []);
    spread.heartbeat(ms(minute, 2_000), vec![]);
    let mut out = Vec::new();
    spread.planner.tick(ms(minute, 2_000), 1, &mut Budget::default(), &mut out);
    assert!(matches!(&out[..], [Command::Claim(due)] if due.request.run == run_at(minute)), "{out:?}");
}

#[test]
fn run_decided_by_another_node_is_not_claimed() {
    let mut spread = Spread::follower(JobTerms::default());
    let minute = spread.minute(60, false);
    spread.wait_for(minute);
    assert_eq!(spread.claims(at(minute), 1), []);
    assert_eq!(spread.planner.undecided(at(minute)), [spread.registration()]);
    spread.observed(minute, ms(minute, 600));
    assert_eq!(spread.planner.undecided(ms(minute, 600)), []);
    spread.heartbeat(ms(minute, 700), vec![]);
    let mut out = Vec::new();
    spread.planner.tick(ms(minute, 700), 1, &mut Budget::default(), &mut out);
    assert_eq!(out, []);
}

#[test]
fn unanswered_claim_keeps_its_id_even_if_overtaken() {
    let mut spread = Spread::follower(JobTerms::default());
    let minute = spread.minute(60, true);
    spread.wait_for(minute);
    let [mut due] = spread.claims(at(minute), 1).try_into().unwrap();
    due.in_doubt = true;
    let mut out = Vec::new();
    spread.planner.claim_answered(ms(minute, 30_000), &due, ClaimOutcome::Failed, &mut out);
    let claims = spread.claims(ms(minute, 60_500), 1);
    assert_eq!(claims, [due], "with the same id");
    let duplicate = spread.answer(ms(minute, 60_600), &claims[0], Duplicate);
    assert_eq!(duplicate, [skipped(SkipReason::DecidedElsewhere, 1)]);
}

#[test]
fn leader_claims_an_instant_left_unclaimed_for_a_moment() {
    let mut spread = Spread::leader(JobTerms::default());
    let minute = spread.minute(60, false);
    for before in (60..minute).step_by(60) {
        let [due] = spread.claims(at(before), 1).try_into().unwrap();
        assert_eq!(due.request.after, None, "everything before it is known to be decided");
        spread.answer(at(before), &due, ClaimReply::Skipped);
    }
    assert_eq!(spread.claims(at(minute), 1), []);
    spread.observed(minute - 60, ms(minute, 400));
    assert_eq!(spread.claims(ms(minute, 600), 1), [], "read too early");
    spread.observed(minute - 60, at(minute) + PAUSE);
    let [due] = spread.claims(ms(minute, 600), 1).try_into().unwrap();
    assert_eq!(
        (due.request.run, due.request.after, due.request.catch_up),
        (run_at(minute), None, CatchUp::No)
    );
}

#[test]
fn instants_decided_by_other_nodes_are_not_missed() {
    let mut spread = Spread::leader(JobTerms::default());
    let minute = spread.minute(60, false);
    spread.observed(minute - 60, ms(minute, 0));
    assert_eq!(spread.claims(ms(minute, 0), 1), []);
    // The end of the grace does not count either before a heartbeat confirms it.
    assert_eq!(spread.claims(ms(minute, 40_000), 1), []);
    spread.observed(minute, ms(minute, 41_000));
    let mut out = Vec::new();
    spread.planner.tick(ms(minute, 41_000), 1, &mut Budget::default(), &mut out);
    assert_eq!(out, []);
}

#[test]
fn run_without_room_is_skipped_by_the_leader_after_its_grace() {
    for leads in [false, true] {
        let terms = JobTerms::default();
        let mut spread = if leads { Spread::leader(terms) } else { Spread::follower(terms) };
        assert_eq!(spread.claims(at(60), 0), []);
        assert_eq!(spread.claims(at(89), 0), []);
        let claims = spread.claims(at(91), 0);
        let skips: Vec<_> =
            claims.iter().filter_map(|due| due.request.skip.clone()).map(|skip| skip.detail).collect();
        assert_eq!(skips, vec!["no node had room, or its pool was full"; usize::from(leads)]);
    }
}

#[test]
fn run_with_a_full_pool_stays_due_on_its_node() {
    let pool = Some(lock_ledger::PoolLimit { name: LockName::new("heavy").unwrap(), max: 1 });
    let mut spread = Spread::follower(JobTerms { pool, ..JobTerms::default() });
    let minute = spread.minute(60, true);
    spread.wait_for(minute);
    let [due] = spread.claims(at(minute), 1).try_into().unwrap();
    assert_eq!(spread.answer(at(minute), &due, ClaimReply::PoolFull { running: 1 }), []);
    assert_eq!(spread.claims(ms(minute, 249), 1), []);
    assert_eq!(spread.planner.wake_at(), Some(ms(minute, 250)));
    let [again] = spread.claims(ms(minute, 250), 1).try_into().unwrap();
    assert_eq!((again.request.run, again.request.after), (due.request.run, due.request.after));
    // One of the requests for this claim got no reply.
    let again = Due { in_doubt: true, ..again };
    spread.answer(ms(minute, 250), &again, ClaimReply::PoolFull { running: 1 });
    assert_eq!(spread.claims(ms(minute, 251), 1), [], "must also back off");
    let [again] = spread.claims(ms(minute, 501), 1).try_into().unwrap();
    let again = Due { in_doubt: false, ..again };
    spread.answer(ms(minute, 501), &again, ClaimReply::PoolFull { running: 1 });
    assert_eq!(spread.claims(ms(minute, 30_001), 1), [], "the leader skips it after its grace");
}

#[test]
fn job_that_was_never_registered_has_lost_no_data() {
    let mut spread = Spread::follower(JobTerms::default());
    let first = spread.minute(60, true);
    spread.wait_for(first);
    let due = spread.claims(at(first), 1).remove(0);
    assert_eq!(spread.answer(at(first), &due, Unregistered), [], "no leader has registered the job yet");
    spread.observed(first, at(first));
    let second = spread.minute(first + 60, true);
    spread.wait_for(second);
    let due = spread.claims(at(second), 1).remove(0);
    assert_eq!(spread.answer(at(second), &due, Unregistered), [skipped(SkipReason::DataLoss, 1)]);
}
