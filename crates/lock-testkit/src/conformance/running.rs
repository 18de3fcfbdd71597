//! Running and ending: a run is its claim's, and its end is told once.

use super::{
    LedgerHarness,
    contender::{LONG, RENEWED, SHORT},
    scheduler::Desk,
};
use lock_ledger::{
    CatchUp, ClaimId, ClaimRequest, EndRequest, Ended, HISTORY, KeptRun, RunOutcome, RunState, Then,
};

/// Keeping is what a live node does; a shorter lease does not lower the end.
pub async fn a_kept_run_outlives_its_first_end(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "kept").await;
    let run = desk.granted(ClaimRequest { lease: RENEWED, ..desk.request(desk.instant(1)) }).await;
    assert_eq!(desk.keep(&run, LONG).await, KeptRun::Kept);
    assert_eq!(desk.keep(&run, SHORT).await, KeptRun::Kept);
    h.pass(RENEWED).await;
    let open = desk.open().await;
    assert_eq!((open.len(), open[0].state), (1, RunState::Running));
    assert!(open[0].remaining <= LONG && open[0].remaining > SHORT, "{:?} are left", open[0].remaining);
}

/// A node that slept too long cannot take back what others may have begun to clear away.
pub async fn a_run_that_is_over_is_not_revived(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "over").await;
    let run = desk.orphan(h, 1).await;
    assert_eq!(desk.keep(&run, LONG).await, KeptRun::Gone);
    assert_eq!(desk.open().await[0].state, RunState::Orphaned);
}

/// Nobody else can end it or keep it.
pub async fn only_its_claim_keeps_and_ends_a_run(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "own").await;
    let run = desk.claim(1).await;
    let mut other = run;
    other.claim = ClaimId::random();
    assert_eq!(desk.end(&other, RunOutcome::Succeeded, Then::Over).await, Ended::Gone);
    assert_eq!(desk.keep(&other, LONG).await, KeptRun::Gone);
    let mut elsewhere = run;
    elsewhere.run = desk.instant(2);
    assert_eq!(desk.end(&elsewhere, RunOutcome::Succeeded, Then::Over).await, Ended::Gone);
    assert_eq!(desk.keep(&run, LONG).await, KeptRun::Kept);
    assert_eq!(desk.history().await, []);
}

/// A lost reply neither doubles an end nor changes it.
pub async fn an_end_that_is_sent_twice_is_recorded_once(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "twice").await;
    let run = desk.claim(1).await;
    for then in [Then::Again, Then::Again, Then::Over, Then::Over] {
        assert_eq!(desk.end(&run, RunOutcome::Failed, then).await, Ended::Recorded);
    }
    assert_eq!(desk.end(&run, RunOutcome::Succeeded, Then::Over).await, Ended::Recorded);
    assert_eq!(desk.outcomes().await, [RunOutcome::Failed]);
}

/// The newest first, and no more than that.
pub async fn the_last_hundred_attempts_are_remembered(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "history").await;
    for millis in 1..=120 {
        let run = desk.claim(millis).await;
        desk.end(&run, RunOutcome::Succeeded, Then::Over).await;
    }
    let history = desk.history().await;
    assert_eq!(history.len(), HISTORY as usize);
    for (attempt, millis) in history.iter().zip((21..=120).rev()) {
        assert_eq!(attempt.run, desk.instant(millis));
        assert!(attempt.ended >= attempt.started && attempt.token.get() > 0, "{attempt:?}");
    }
    let last = desk.ledger().history(desk.job.clone(), 2).await.expect("a ledger answers").outcome;
    assert_eq!(last[..], history[..2]);
}

/// What people write is kept as it is.
pub async fn texts_of_every_shape_are_kept(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "texts").await;
    for (number, text) in ["", " ", "a b\n\"c\"", "Größe: 3 µs", "\\u0041\u{1f600}\t\u{0}", "[1,2]", "nil"]
        .into_iter()
        .enumerate()
    {
        let request = ClaimRequest {
            node: text.to_owned(),
            catch_up: CatchUp::Yes,
            ..desk.request(desk.instant(number as u64 + 1))
        };
        let run = desk.granted(request).await;
        assert_eq!(desk.open().await[0].node, text);
        desk.end_saying(&run, RunOutcome::Panicked, Then::Over, text).await;
        let last = &desk.history().await[0];
        assert_eq!((&*last.node, &*last.detail), (text, text));
        assert_eq!((last.catch_up, last.outcome), (CatchUp::Yes, RunOutcome::Panicked));
        assert_eq!((last.run, last.claim, last.token, last.attempt), (run.run, run.claim, run.token, 1));
    }
}

/// The length is the scheduler's to choose.
pub async fn a_history_is_as_long_as_asked(h: &impl LedgerHarness) {
    let desk = Desk::new(h, "length").await;
    for millis in 1..=9 {
        let run = desk.granted(ClaimRequest { history: 3, ..desk.request(desk.instant(millis)) }).await;
        let (job, run, claim, detail) = (desk.job.clone(), run.run, run.claim, String::new());
        let (outcome, then) = (RunOutcome::Succeeded, Then::Over);
        let end = EndRequest { job, run, claim, outcome, detail, then, history: 3 };
        desk.ledger().end(end).await.expect("a ledger answers");
    }
    let kept: Vec<_> = desk.history().await.into_iter().map(|entry| entry.run).collect();
    assert_eq!(kept, [9, 8, 7].map(|millis| desk.instant(millis)));
}
