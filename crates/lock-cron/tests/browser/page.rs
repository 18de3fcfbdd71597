//! The page: its list, its job pages, its addresses and its appearance.

use crate::fixture::{BACKFILLED, ERROR, FAILING, Fixture};
use lock_browser::{Browser, ColorScheme, Key, Screen};

/// Opens the page at this fragment, and waits until it is shown.
pub(crate) async fn opened(fixture: &Fixture, hash: &str) -> Browser {
    let browser = Browser::start().await.unwrap();
    browser.set_screen(Screen::LAPTOP).await.unwrap();
    browser.open(&format!("{}{hash}", fixture.url())).await.unwrap();
    browser
        .wait_for("!document.querySelector('main').hidden && document.querySelector('#no-script').hidden && document.querySelector('#link').textContent === '● Live'")
        .await
        .unwrap();
    browser
}

/// Waits until the page confirms an action with this text.
pub(crate) async fn confirmed(browser: &Browser, text: &str) {
    let shown = format!("document.querySelector('#toast').textContent.includes('{text}')");
    browser.wait_for(&shown).await.unwrap();
}

/// Returns an expression for the row of a job.
pub(crate) fn row(job: &str) -> String {
    format!(
        "[...document.querySelectorAll('#jobs tr')].find(row => row.querySelector('.name').textContent === '{job}')"
    )
}

#[tokio::test]
async fn failing_job_is_first_with_its_time_and_error() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    let first = browser.text("#jobs tr").await.unwrap();
    for part in
        [FAILING, "✕ failed", "failing since 07:45", "last success", ERROR, "Run now", "Every 15 minutes"]
    {
        assert!(first.contains(part), "{part} is in {first}");
    }
    assert_eq!(browser.text("#nodes").await.unwrap(), "3 live nodes · leader web-1");
    let paused = browser.value(&format!("{}.textContent", row("nightly-reports"))).await.unwrap();
    assert!(paused.as_str().unwrap().contains("‖ paused by ann: the data warehouse moves"), "{paused}");
    let unowned = browser.value(&format!("{}.textContent", row("legacy-export"))).await.unwrap();
    assert!(unowned.as_str().unwrap().contains("○ no live node: does not run until"), "{unowned}");
    let running = browser.value(&format!("{}.textContent", row(BACKFILLED))).await.unwrap();
    assert!(running.as_str().unwrap().contains("▸ running"), "{running}");
}

#[tokio::test]
async fn filters_and_search_are_in_the_address() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    let names = "[...document.querySelectorAll('#jobs .name')].map(name => name.textContent).join()";
    for (filter, jobs) in [
        ("failing", FAILING),
        ("paused", "nightly-reports"),
        ("running", BACKFILLED),
        ("unowned", "legacy-export"),
    ] {
        let button = format!("[data-show={filter}]");
        assert!(browser.text(&button).await.unwrap().ends_with(" 1"), "{filter}");
        browser.click(&button).await.unwrap();
        browser.wait_for(&format!("{names} === '{jobs}'")).await.unwrap();
        assert_eq!(browser.value("location.hash").await.unwrap(), format!("#show={filter}"));
    }
    browser.click("[data-show=all]").await.unwrap();
    browser.run("const s = document.querySelector('#search'); s.value = 'EXP'; s.dispatchEvent(new Event('input'))").await.unwrap();
    browser.wait_for(&format!("{names} === 'legacy-export,expire-carts'")).await.unwrap();
    let again = browser.value("location.href").await.unwrap();
    browser.open("about:blank").await.unwrap();
    browser.open(again.as_str().unwrap()).await.unwrap();
    browser.wait_for(&format!("{names} === 'legacy-export,expire-carts'")).await.unwrap();
    assert_eq!(browser.value("document.querySelector('#search').value").await.unwrap(), "EXP");
}

#[tokio::test]
async fn page_of_a_job_has_an_address_of_its_own() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, &format!("#job={FAILING}")).await;
    assert_eq!(browser.text("#job-name").await.unwrap(), FAILING);
    assert_eq!(browser.text("#group").await.unwrap(), "billing");
    assert_eq!(browser.text("#nodes").await.unwrap(), "3 live nodes · leader web-1");
    assert!(browser.text("#zone").await.unwrap().starts_with("times in "));
    assert!(browser.text("#runs").await.unwrap().contains("✕ timed out after 5m"));
    assert!(
        browser
            .text("#verdict")
            .await
            .unwrap()
            .contains("✕ Failing since 07:45 (for 1 h 22 min), 12 failed attempts")
    );
    assert_eq!(browser.value("document.querySelectorAll('#upcoming li').length").await.unwrap(), 5);
    assert!(browser.text("#terms").await.unwrap().contains("skip while another run is open"));
    // The attempts of a run are in its entry, with the whole error.
    assert_eq!(browser.value("document.querySelectorAll('#runs > li').length").await.unwrap(), 20);
    browser.click("#runs summary").await.unwrap();
    let attempts = browser.text("#runs details[open]").await.unwrap();
    assert!(attempts.contains("Attempt 2 ✕ failed") && attempts.contains("Attempt 1 ✕ failed"), "{attempts}");
    assert_eq!(browser.text("#runs details[open] pre").await.unwrap(), ERROR);
    browser.click("#back").await.unwrap();
    browser.wait_for("!document.querySelector('#list').hidden").await.unwrap();
    browser.run("history.back()").await.unwrap();
    browser.wait_for("!document.querySelector('#job').hidden").await.unwrap();
    browser.open(&format!("{}#job=nobody", fixture.url())).await.unwrap();
    browser
        .wait_for("document.querySelector('#trouble').textContent.includes('no job `nobody`')")
        .await
        .unwrap();
}

#[tokio::test]
async fn updates_keep_focus_selection_and_open_entries() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    let select = format!(
        "const row = {}; row.querySelector('.run').focus();
        getSelection().selectAllChildren(row.querySelector('.error')); window.kept = row;",
        row(FAILING)
    );
    browser.run(&select).await.unwrap();
    fixture.cron.trigger("warm-cache").await.unwrap();
    browser
        .wait_for(&format!(
            "{}.querySelector('.when').textContent.match(/just now| s ago/)",
            row("warm-cache")
        ))
        .await
        .unwrap();
    assert_eq!(browser.value("getSelection().toString()").await.unwrap(), ERROR);
    assert_eq!(
        browser.value("document.activeElement.ariaLabel").await.unwrap(),
        format!("Run {FAILING} now")
    );
    assert_eq!(browser.value(&format!("window.kept === {}", row(FAILING))).await.unwrap(), true);

    browser.open(&format!("{}#job={FAILING}", fixture.url())).await.unwrap();
    browser.wait_for("document.querySelectorAll('#runs > li').length === 20").await.unwrap();
    browser
        .run("window.kept = document.querySelector('#runs details'); window.kept.open = true")
        .await
        .unwrap();
    fixture.cron.trigger(FAILING).await.unwrap();
    browser.wait_for("document.querySelectorAll('#runs > li').length === 21").await.unwrap();
    assert_eq!(browser.value("window.kept.isConnected && window.kept.open").await.unwrap(), true);
}

#[tokio::test]
async fn first_paint_is_complete_and_nothing_shifts() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    assert_eq!(browser.layout_shifts().await.unwrap(), Vec::<String>::new());
    let paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
    println!("first paint after {:.0} ms", browser.value(paint).await.unwrap().as_f64().unwrap());
}

#[tokio::test]
async fn narrow_screens_need_no_sideways_scrolling() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    for hash in [String::new(), format!("#job={FAILING}"), format!("#job={BACKFILLED}")] {
        browser.run(&format!("location.hash = '{hash}'")).await.unwrap();
        let shown = if hash.is_empty() { "list" } else { "job" };
        browser.wait_for(&format!("!document.querySelector('#{shown}').hidden")).await.unwrap();
        for (width, height) in [(320, 640), (360, 780), (720, 900), (1080, 800), (1920, 1080)] {
            browser.set_screen(Screen { width, height, ..Screen::PHONE }).await.unwrap();
            let outside = browser.off_screen().await.unwrap();
            assert!(outside.is_empty(), "outside a screen of {width} px: {outside:?}");
        }
    }
}

#[tokio::test]
async fn light_and_dark_themes_have_contrast() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    for hash in ["", "#job=sync-exchange-rates", "#job=nightly-reports", "#job=rebuild-search-index"] {
        browser.run(&format!("location.hash = '{hash}'")).await.unwrap();
        let job = hash.trim_start_matches("#job=");
        let shown = if hash.is_empty() {
            "!document.querySelector('#list').hidden".to_owned()
        } else {
            format!("document.querySelector('#job-name').textContent === '{job}'")
        };
        browser.wait_for(&shown).await.unwrap();
        for scheme in [ColorScheme::Light, ColorScheme::Dark] {
            browser.set_color_scheme(scheme).await.unwrap();
            let low = browser.low_contrast().await.unwrap();
            assert!(low.is_empty(), "{scheme:?} {hash}: {low:?}");
        }
    }
}

#[tokio::test]
async fn page_can_be_used_by_keyboard_alone() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture, "").await;
    browser.press(Key::Char('/')).await.unwrap();
    assert_eq!(browser.value("document.activeElement.id").await.unwrap(), "search");
    browser.press(Key::Tab).await.unwrap();
    assert_eq!(browser.value("document.activeElement.textContent").await.unwrap(), FAILING, "the first job");
    assert_eq!(
        browser.value("getComputedStyle(document.activeElement).outlineStyle").await.unwrap(),
        "solid"
    );
    browser.press(Key::Enter).await.unwrap();
    browser.wait_for("document.activeElement.id === 'job-name'").await.unwrap();
    browser.press(Key::Tab).await.unwrap();
    assert_eq!(browser.value("document.activeElement.dataset.act").await.unwrap(), "run");
    fixture.bank_is_open.store(true, std::sync::atomic::Ordering::SeqCst);
    browser.press(Key::Enter).await.unwrap();
    browser
        .wait_for("document.querySelector('#verdict-title').textContent.startsWith('✓ succeeded')")
        .await
        .unwrap();
}

#[tokio::test]
async fn nothing_is_requested_from_another_host() {
    let fixture = Fixture::start().await;
    let mut browser = opened(&fixture, "").await;
    browser.click("#jobs .name").await.unwrap();
    browser.wait_for("!document.querySelector('#job').hidden").await.unwrap();
    let requests = browser.requests().await.unwrap();
    assert!(requests.iter().any(|request| request.contains("/cron/jobs?")), "{requests:?}");
    let own = [fixture.url(), "data:".into()];
    assert!(requests.iter().all(|request| own.iter().any(|own| request.starts_with(own))), "{requests:?}");
    assert_eq!(browser.complaints().await.unwrap(), Vec::<String>::new());
}

/// Writes the pictures of the README: `SCREENSHOTS=1 cargo test -p lock-cron --all-features --test browser pictures`.
#[tokio::test]
async fn pictures_of_the_readme_show_the_failing_job() {
    let fixture = Fixture::start().await;
    let pictures = [
        ("", ColorScheme::Light, "console-light"),
        ("#job=sync-exchange-rates", ColorScheme::Dark, "console-job-dark"),
    ];
    for (hash, scheme, name) in pictures {
        let browser = opened(&fixture, hash).await;
        browser.set_color_scheme(scheme).await.unwrap();
        assert!(browser.text("main").await.unwrap().contains(ERROR), "{name}");
        if std::env::var_os("SCREENSHOTS").is_some() {
            let file = format!("{}/{name}.png", env!("CARGO_MANIFEST_DIR"));
            browser.screenshot(std::path::Path::new(&file)).await.unwrap();
        }
    }
}
