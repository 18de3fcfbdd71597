//! Pools: runs that wait for a slot, and the claims that they send.

use super::*;
use lock_ledger::PoolLimit;

const NOON: u64 = 12 * 3600;
const FULL: ClaimReply = ClaimReply::PoolFull { running: 1 };

fn in_pool(terms: JobTerms) -> JobTerms {
    let pool = PoolLimit { name: LockName::new("heavy").unwrap(), max: 1 };
    JobTerms { pool: Some(pool), placement: Placement::Leader, ..terms }
}

/// The planner of a leader with several jobs in one pool.
struct Pooled(Planner);

impl Pooled {
    fn of(jobs: &[(&str, &str)], terms: &JobTerms) -> Self {
        let mut planner = super::planner();
        planner.elected();
        for (name, schedule) in jobs {
            let (name, schedule) = (LockName::new(name).unwrap(), Schedule::cron(schedule).unwrap());
            planner.add(at(0), name.clone(), schedule, terms.clone());
            register(&mut planner, &name, at(0));
        }
        Self(planner)
    }

    fn claims(&mut self, now: UtcTime) -> Vec<Due> {
        let mut out = Vec::new();
        self.0.tick(now, u32::MAX, &mut Budget::default(), &mut out);
        out.iter().filter_map(claim).cloned().collect()
    }

    /// Completes the only claim of a tick and returns its job.
    fn claim(&mut self, now: UtcTime, reply: ClaimReply) -> String {
        let claims = self.claims(now);
        let [due] = &claims[..] else { panic!("one claim: {claims:?}") };
        self.answer(now, due, reply);
        due.request.job.name.to_string()
    }

    fn answer(&mut self, now: UtcTime, due: &Due, reply: ClaimReply) {
        self.0.claim_answered(now, due, ClaimOutcome::Answered(reply), &mut Vec::new());
    }
}

fn claimed() -> ClaimReply {
    ClaimReply::Claimed { token: FencingToken::new(1), attempt: 1, failures: 0, payload: None }
}

const DAILY: [(&str, &str); 3] = [("a", "0 12 * * *"), ("b", "0 12 * * *"), ("c", "0 12 * * *")];

#[test]
fn full_pool_is_polled_by_one_job_with_back_off() {
    let mut pooled = Pooled::of(&DAILY, &in_pool(JobTerms::default()));
    let (mut now, mut waits) = (at(NOON), Vec::new());
    for _ in 0..7 {
        assert_eq!(pooled.claim(now, FULL), "a", "one claim for all jobs");
        assert_eq!(pooled.claims(now), []);
        let next = pooled.0.wake_at().unwrap();
        waits.push(next.since(now).as_millis());
        now = next;
    }
    assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
}

#[test]
fn end_of_a_run_lets_the_next_claim_at_once() {
    let mut pooled = Pooled::of(&DAILY, &in_pool(JobTerms::default()));
    let now = at(NOON);
    assert_eq!(pooled.claim(now, claimed()), "a");
    assert_eq!(pooled.claim(now, FULL), "b");
    assert_eq!(pooled.claims(now), []);
    pooled.0.run_ended(&LockName::new("a").unwrap());
    assert_eq!(pooled.claim(now, claimed()), "b");
    assert_eq!(pooled.claim(now, FULL), "c", "a grant needs no back-off either");
    assert_eq!(pooled.0.wake_at().unwrap().since(now).as_millis(), 250, "the back-off begins again");
}

#[test]
fn claims_of_a_pool_are_sent_one_at_a_time() {
    let mut pooled = Pooled::of(&DAILY, &in_pool(JobTerms::default()));
    let claims = pooled.claims(at(NOON));
    assert_eq!(claims.len(), 1);
    assert_eq!(pooled.claims(at(NOON)), [], "before the reply");
    assert!(pooled.0.wake_at().unwrap() > at(NOON), "the reply is an event");
    pooled.0.claim_answered(at(NOON), &claims[0], ClaimOutcome::Failed, &mut Vec::new());
    assert_eq!(pooled.claim(at(NOON), claimed()), "b", "a failure does not delay the others");
}

#[test]
fn full_pool_does_not_delay_jobs_outside_it() {
    let mut pooled = Pooled::of(&DAILY, &in_pool(JobTerms::default()));
    let free = JobTerms { pool: None, placement: Placement::Leader, ..JobTerms::default() };
    let name = LockName::new("free").unwrap();
    pooled.0.add(at(0), name.clone(), Schedule::cron("0 12 * * *").unwrap(), free);
    register(&mut pooled.0, &name, at(0));
    let claims = pooled.claims(at(NOON));
    assert_eq!(claims.iter().map(|due| due.request.job.name.as_str()).collect::<Vec<_>>(), ["a", "free"]);
}

#[test]
fn run_that_has_waited_longest_is_claimed_first() {
    let jobs = [("a", "5 12 * * *"), ("b", "0 12 * * *"), ("c", "2 12 * * *")];
    let mut pooled = Pooled::of(&jobs, &in_pool(JobTerms::default()));
    assert_eq!(pooled.claim(at(NOON + 600), claimed()), "b");
    assert_eq!(pooled.claim(at(NOON + 600), claimed()), "c");
    assert_eq!(pooled.claim(at(NOON + 600), claimed()), "a");
}

#[test]
fn run_without_a_place_is_skipped_after_its_grace() {
    let mut pooled = Pooled::of(&[("a", "* * * * *")], &in_pool(JobTerms::default()));
    pooled.claim(at(60), FULL);
    let claims = pooled.claims(at(91));
    let detail = |due: &Due| due.request.skip.as_ref().map(|skip| skip.detail.clone());
    let skips: Vec<_> = claims.iter().map(|due| (due.request.run, detail(due))).collect();
    assert_eq!(skips, [(run_at(60), Some(SkipReason::NoCapacity.detail().to_owned()))]);
    pooled.answer(at(91), &claims[0], ClaimReply::Skipped);
    assert_eq!(pooled.claims(at(119)), []);
    assert_eq!(pooled.claim(at(120), claimed()), "a", "the next run must claim again");
}

#[test]
fn triggered_and_catch_up_runs_wait_indefinitely() {
    let terms = in_pool(JobTerms { misfire: Misfire::FireOnce, ..JobTerms::default() });
    let mut pooled = Pooled::of(&[("a", "0 12 * * *")], &terms);
    let (job, run) = (LockName::new("a").unwrap(), RunId::Triggered(uuid::Uuid::from_u128(7)));
    pooled.0.triggered(&job, run);
    pooled.claim(at(10), FULL);
    let claims = pooled.claims(at(NOON - 10));
    assert!(
        matches!(&claims[..], [due] if due.request.run == run && due.request.skip.is_none()),
        "{claims:?}"
    );
    pooled.answer(at(NOON - 10), &claims[0], claimed());
    // Noon has been missed.
    let late = NOON + 13 * 3600;
    pooled.claim(at(late), FULL);
    let claims = pooled.claims(at(late + 6 * 3600));
    assert!(
        matches!(&claims[..], [due] if due.request.catch_up == CatchUp::Yes && due.request.skip.is_none()),
        "{claims:?}"
    );
}

#[test]
fn claim_in_doubt_with_a_full_pool_backs_off() {
    let mut pooled = Pooled::of(&DAILY[..1], &in_pool(JobTerms::default()));
    let claims = pooled.claims(at(NOON));
    let [due] = &claims[..] else { panic!("one claim: {claims:?}") };
    // The first request was not answered and may still be applied; the second one was answered.
    let due = Due { in_doubt: true, ..due.clone() };
    pooled.answer(at(NOON), &due, FULL);
    assert_eq!(pooled.claims(at(NOON)), []);
    let wakes = pooled.0.wake_at().expect("still waiting");
    assert!(wakes > at(NOON), "{wakes}");
    assert_eq!(pooled.claims(wakes), [due], "with the same id");
}

#[test]
fn pool_without_waiting_runs_is_forgotten() {
    let mut pooled = Pooled::of(&[("a", "* * * * *"), ("b", "30 * * * *")], &in_pool(JobTerms::default()));
    pooled.claim(at(60), FULL);
    register(&mut pooled.0, &LockName::new("a").unwrap(), at(60));
    assert_eq!(pooled.claims(at(70)), [], "another node has claimed it");
    assert_eq!(pooled.claim(at(120), FULL), "a");
    assert_eq!(pooled.0.wake_at().unwrap().since(at(120)).as_millis(), 250, "not the second wait");
}
