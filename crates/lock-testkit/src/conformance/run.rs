//! Properties of open runs. Only a run's own claim can renew and end it, and its end is recorded
//! once.

use super::{
    LedgerHarness,
    contender::{LONG, RENEWED, SHORT},
    ledger_fixture::LedgerFixture,
};
use lock_ledger::{
    AfterAttempt, CatchUp, ClaimId, ClaimRequest, DEFAULT_HISTORY, EndReply, EndRequest, RunOutcome,
    RunRenewal, RunState,
};

/// A renewed run outlasts its original lease. A renewal with a shorter lease does not shorten it.
pub async fn a_renewed_run_outlives_its_first_end(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "renewed").await;
    let run = ledger.granted(ClaimRequest { lease: RENEWED, ..ledger.request(ledger.instant(1)) }).await;
    assert_eq!(ledger.renew(&run, LONG).await, RunRenewal::Renewed);
    assert_eq!(ledger.renew(&run, SHORT).await, RunRenewal::Renewed);
    h.pass(RENEWED).await;
    let open = ledger.open_runs().await;
    assert_eq!((open.len(), open[0].state), (1, RunState::Running));
    assert!(open[0].remaining <= LONG && open[0].remaining > SHORT, "{:?} remain", open[0].remaining);
}

/// An expired run cannot be renewed, because another node may have taken it over.
pub async fn an_expired_run_is_not_revived(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "over").await;
    let run = ledger.orphan(h, 1).await;
    assert_eq!(ledger.renew(&run, LONG).await, RunRenewal::Gone);
    assert_eq!(ledger.open_runs().await[0].state, RunState::Orphaned);
}

/// Another claim can neither renew nor end the run.
pub async fn only_its_claim_renews_and_ends_a_run(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "own").await;
    let run = ledger.claim(1).await;
    let mut other = run;
    other.claim = ClaimId::random();
    assert_eq!(ledger.end(&other, RunOutcome::Succeeded, AfterAttempt::Finish).await, EndReply::Gone);
    assert_eq!(ledger.renew(&other, LONG).await, RunRenewal::Gone);
    let mut elsewhere = run;
    elsewhere.run = ledger.instant(2);
    assert_eq!(ledger.end(&elsewhere, RunOutcome::Succeeded, AfterAttempt::Finish).await, EndReply::Gone);
    assert_eq!(ledger.renew(&run, LONG).await, RunRenewal::Renewed);
    assert_eq!(ledger.history().await, []);
}

/// An end repeated after a lost reply is neither duplicated nor changed.
pub async fn a_repeated_end_is_recorded_once(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "twice").await;
    let run = ledger.claim(1).await;
    for then in [AfterAttempt::Retry, AfterAttempt::Retry, AfterAttempt::Finish, AfterAttempt::Finish] {
        assert_eq!(ledger.end(&run, RunOutcome::Failed, then).await, EndReply::Recorded);
    }
    assert_eq!(ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await, EndReply::Recorded);
    assert_eq!(ledger.outcomes().await, [RunOutcome::Failed]);
}

/// The history is sorted newest first and limited to its maximum length.
pub async fn the_last_hundred_attempts_are_remembered(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "history").await;
    for millis in 1..=120 {
        let run = ledger.claim(millis).await;
        ledger.end(&run, RunOutcome::Succeeded, AfterAttempt::Finish).await;
    }
    let history = ledger.history().await;
    assert_eq!(history.len(), DEFAULT_HISTORY as usize);
    for (attempt, millis) in history.iter().zip((21..=120).rev()) {
        assert_eq!(attempt.run, ledger.instant(millis));
        assert!(attempt.ended >= attempt.started && attempt.token.get() > 0, "{attempt:?}");
    }
    let last = ledger.client().history(ledger.job.clone(), 2).await.expect("ledger call failed").outcome;
    assert_eq!(last[..], history[..2]);
}

/// Texts for display are stored unchanged.
pub async fn texts_of_every_shape_are_kept(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "texts").await;
    for (number, text) in ["", " ", "a b\n\"c\"", "Größe: 3 µs", "\\u0041\u{1f600}\t\u{0}", "[1,2]", "nil"]
        .into_iter()
        .enumerate()
    {
        let request = ClaimRequest {
            node: text.to_owned(),
            catch_up: CatchUp::Yes,
            ..ledger.request(ledger.instant(number as u64 + 1))
        };
        let run = ledger.granted(request).await;
        assert_eq!(ledger.open_runs().await[0].node, text);
        ledger.end_saying(&run, RunOutcome::Panicked, AfterAttempt::Finish, text).await;
        let last = &ledger.history().await[0];
        assert_eq!((&*last.node, &*last.detail), (text, text));
        assert_eq!((last.catch_up, last.outcome), (CatchUp::Yes, RunOutcome::Panicked));
        assert_eq!((last.run, last.claim, last.token, last.attempt), (run.run, run.claim, run.token, 1));
    }
}

/// The scheduler determines the maximum length of the history.
pub async fn a_history_is_as_long_as_asked(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "length").await;
    for millis in 1..=9 {
        let run = ledger.granted(ClaimRequest { history: 3, ..ledger.request(ledger.instant(millis)) }).await;
        let (job, run, claim, detail) = (ledger.job.clone(), run.run, run.claim, String::new());
        let (outcome, then) = (RunOutcome::Succeeded, AfterAttempt::Finish);
        let end = EndRequest { job, run, claim, outcome, detail, then, history: 3 };
        ledger.client().end(end).await.expect("ledger call failed");
    }
    let kept: Vec<_> = ledger.history().await.into_iter().map(|entry| entry.run).collect();
    assert_eq!(kept, [9, 8, 7].map(|millis| ledger.instant(millis)));
}
