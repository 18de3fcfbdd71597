//! The actions of an operator.

use crate::{
    fixture::{BACKFILLED, FAILING, Fixture},
    page::{confirmed, opened, row},
    past::NOW,
};
use std::{sync::atomic::Ordering, time::Duration};

#[tokio::test]
async fn failing_job_is_run_from_its_row() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    fixture.bank_is_open.store(true, Ordering::SeqCst);
    browser.click(&format!("[aria-label='Run {FAILING} now']")).await.unwrap();
    confirmed(&browser, "Requested a run").await;
    browser
        .wait_for(&format!("{}.querySelector('.outcome').textContent === '✓ succeeded'", row(FAILING)))
        .await
        .unwrap();
    browser.wait_for("document.querySelector('[data-show=failing] b').textContent === '0'").await.unwrap();
    browser.wait_for("document.querySelector('#changes').textContent === '0 failing'").await.unwrap();
}

#[tokio::test]
async fn job_is_paused_with_a_note_and_resumed() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "#job=invoices").await;
    browser.click("[data-act=pause]").await.unwrap();
    assert_eq!(browser.value("document.activeElement.id").await.unwrap(), "note");
    browser.run("document.querySelector('#note').value = 'the <b>bank</b> is closed'").await.unwrap();
    browser.click("#pause .primary").await.unwrap();
    browser.wait_for("document.querySelector('#verdict-more').textContent.includes('‖ paused by ann: the <b>bank</b> is closed')").await.unwrap();
    browser.click("[data-act=resume]").await.unwrap();
    browser
        .wait_for("!document.querySelector('#verdict-more').textContent.includes('paused')")
        .await
        .unwrap();
    assert!(fixture.cron.list().await.unwrap().iter().filter(|job| job.paused).count() == 1);
}

#[tokio::test]
async fn open_run_is_cancelled_on_the_page_of_its_job() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, &format!("#job={BACKFILLED}")).await;
    browser.click("#open button").await.unwrap();
    confirmed(&browser, "to end").await;
    browser
        .wait_for("document.querySelector('#open span').textContent.startsWith('▸ cancelling')")
        .await
        .unwrap();
    browser.wait_for("document.querySelector('#open button').hidden").await.unwrap();
    let job = fixture.cron.list().await.unwrap().into_iter().find(|job| !job.open.is_empty()).unwrap();
    assert!(job.open[0].cancelled, "{job:?}");
}

#[tokio::test]
async fn backfill_is_cancelled_on_the_page_of_its_job() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    browser.wait_for(&format!("{}.textContent.includes('↺ 1 backfill')", row(BACKFILLED))).await.unwrap();
    browser.click(&format!("[href='#job={BACKFILLED}']")).await.unwrap();
    browser
        .wait_for("document.querySelector('#backfills').textContent.includes(': 1 done, 1 open, 10 left')")
        .await
        .unwrap();
    let hour = NOW - Duration::from_secs(3_600)..NOW;
    browser.run("window.kept = document.querySelector('#backfills li')").await.unwrap();
    let second = fixture.cron.backfill(BACKFILLED, hour, 20).await.unwrap();
    browser.wait_for("document.querySelectorAll('#backfills li').length === 2").await.unwrap();
    assert_eq!(
        browser.value("document.querySelector('#changes').textContent").await.unwrap(),
        format!("2 backfills of {BACKFILLED} open")
    );
    browser.click("#backfills button").await.unwrap();
    confirmed(&browser, "Cancelled a backfill").await;
    browser.wait_for("document.querySelectorAll('#backfills li').length === 1").await.unwrap();
    assert_eq!(browser.value("window.kept.isConnected").await.unwrap(), false, "the first backfill");
    let left = fixture.cron.backfills().await.unwrap();
    assert_eq!(left.iter().map(|backfill| backfill.id).collect::<Vec<_>>(), [second]);
    assert!(browser.text("#open").await.unwrap().contains("▸ running"), "its open run continues");
}

#[tokio::test]
async fn invalid_schedule_is_explained_and_changes_nothing() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "#job=warm-cache").await;
    browser.click("[data-act=replace]").await.unwrap();
    assert_eq!(browser.value("document.querySelector('#schedule').value").await.unwrap(), "0 */6 * * *");
    browser.run("document.querySelector('#schedule').value = '0 25 * * *'").await.unwrap();
    browser.click("#replace .primary").await.unwrap();
    browser.wait_for("document.querySelector('#replace-error').textContent.includes('25')").await.unwrap();
    browser.run("document.querySelector('#schedule').value = '0 5 * * *'").await.unwrap();
    browser.click("#replace .primary").await.unwrap();
    browser
        .wait_for("document.querySelector('#job-words').textContent.startsWith('At 05:00')")
        .await
        .unwrap();
    browser.click("[data-act=restore]").await.unwrap();
    browser
        .wait_for("document.querySelector('#job-words').textContent.includes('0 */6 * * *')")
        .await
        .unwrap();
}
