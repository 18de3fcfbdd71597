//! Tests of the page with simulated numbers.

use crate::fixture::Fixture;
use lock_browser::{Browser, ColorScheme, Key, Screen};

pub(crate) const STATE_OF_SHOP_2: &str =
    "document.querySelector('[data-key=shop-2] [data-field=state]').textContent";

async fn opened(fixture: &Fixture) -> Browser {
    let browser = Browser::start().await.unwrap();
    browser.set_screen(Screen::LAPTOP).await.unwrap();
    browser.open(&fixture.url()).await.unwrap();
    browser.wait_for("document.querySelector('#link').textContent === '● Live'").await.unwrap();
    browser
}

/// Presses Tab until the element that matches `selector` has the focus.
async fn tab_to(browser: &Browser, selector: &str) {
    for _ in 0..40 {
        browser.press(Key::Tab).await.unwrap();
        if browser.value(&format!("document.activeElement.matches('{selector}')")).await.unwrap() == true {
            return;
        }
    }
    panic!("Tab does not reach {selector}");
}

#[tokio::test]
async fn first_paint_is_complete_and_nothing_shifts() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture).await;
    browser.click("#load").await.unwrap();
    browser.wait_for("+document.querySelector('#sold').textContent.replace(',', '') > 640").await.unwrap();
    assert_eq!(browser.layout_shifts().await.unwrap(), Vec::<String>::new());
    let paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
    let paint = browser.value(paint).await.unwrap().as_f64().unwrap();
    println!("first paint after {paint:.0} ms");
    if std::env::var_os("LOCK_LONG").is_some() {
        assert!(paint < 1_000.0, "first paint after {paint:.0} ms");
    }
}

#[tokio::test]
async fn clicks_switch_the_strategy_and_pause_a_server() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture).await;
    browser.run("const s = document.querySelector('#strategy'); s.value = 'none'; s.dispatchEvent(new Event('change'))").await.unwrap();
    browser
        .wait_for("document.querySelector('#strategy-verdict').textContent === '▲ Sells units twice'")
        .await
        .unwrap();
    browser
        .wait_for("document.querySelector('#log li').textContent.includes('from fenced to none')")
        .await
        .unwrap();
    assert_eq!(browser.text("#lost").await.unwrap(), "0");
    browser.click("#load").await.unwrap();
    browser.wait_for("document.querySelector('#lost-tile').matches('.broken')").await.unwrap();
    assert_eq!(browser.text("#lost-word").await.unwrap(), "▲ still in stock");

    browser.click("[aria-label='Pause shop-2']").await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '‖ paused'")).await.unwrap();
    browser.click("[aria-label='Resume shop-2']").await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '● running'")).await.unwrap();
    browser.click("[aria-label='Kill shop-2']").await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '✕ dead'")).await.unwrap();
    browser
        .wait_for("document.querySelector('[aria-label=\"Pause shop-2\"]').ariaDisabled === 'true'")
        .await
        .unwrap();
    browser.click("[aria-label='Revive shop-2']").await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '● running'")).await.unwrap();
}

#[tokio::test]
async fn keyboard_alone_is_enough() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture).await;
    tab_to(&browser, "#strategy").await;
    browser.press(Key::Char('n')).await.unwrap();
    browser
        .wait_for("document.querySelector('#strategy-verdict').textContent === '▲ Sells units twice'")
        .await
        .unwrap();
    tab_to(&browser, "#load").await;
    browser.press(Key::Space).await.unwrap();
    browser.wait_for("document.querySelector('#load').textContent === 'Stop load'").await.unwrap();
    tab_to(&browser, "[aria-label=\"Pause shop-2\"]").await;
    browser.press(Key::Enter).await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '‖ paused'")).await.unwrap();
    // The label of the button has changed, and the button still has the focus.
    assert_eq!(browser.value("document.activeElement.ariaLabel").await.unwrap(), "Resume shop-2");
    assert_eq!(
        browser.value("getComputedStyle(document.activeElement).outlineStyle").await.unwrap(),
        "solid"
    );
    tab_to(&browser, "#log").await;
}

#[tokio::test]
async fn narrow_screens_need_no_sideways_scrolling() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture).await;
    for (width, height) in [(320, 640), (360, 780), (720, 900), (1080, 800), (1920, 1080)] {
        browser.set_screen(Screen { width, height, ..Screen::PHONE }).await.unwrap();
        let outside = browser.off_screen().await.unwrap();
        assert!(outside.is_empty(), "outside a screen of {width} px: {outside:?}");
        let clipped = "Array.from(document.querySelectorAll('button, .figure, td:not(.name)'))\
            .filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.textContent).join()";
        assert_eq!(browser.value(clipped).await.unwrap(), "", "clipped on a screen of {width} px");
    }
}

#[tokio::test]
async fn light_and_dark_have_contrast() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture).await;
    let page = "getComputedStyle(document.body).backgroundColor";
    browser.set_color_scheme(ColorScheme::Light).await.unwrap();
    let light = browser.value(page).await.unwrap();
    assert_eq!(browser.low_contrast().await.unwrap(), Vec::<String>::new());
    browser.set_color_scheme(ColorScheme::Dark).await.unwrap();
    assert_ne!(browser.value(page).await.unwrap(), light);
    assert_eq!(browser.low_contrast().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_requested_from_another_host() {
    let fixture = Fixture::start().await;
    let mut browser = opened(&fixture).await;
    browser.click("#load").await.unwrap();
    browser.click("[aria-label='Kill shop-1']").await.unwrap();
    browser.wait_for("document.querySelector('[aria-label=\"Revive shop-1\"]')").await.unwrap();
    let requests = browser.requests().await.unwrap();
    assert!(requests.contains(&format!("{}events", fixture.url())), "{requests:?}");
    let own = [fixture.url(), "data:".into()];
    assert!(requests.iter().all(|request| own.iter().any(|own| request.starts_with(own))), "{requests:?}");
    assert_eq!(browser.complaints().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn page_reconnects_after_a_restart() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture).await;
    let address = fixture.address;
    drop(fixture);
    browser.wait_for("document.querySelector('#link').textContent === '○ Reconnecting'").await.unwrap();
    let again = Fixture::at(address, 2).await;
    browser.wait_for("document.querySelector('#link').textContent === '● Live'").await.unwrap();
    browser.click("#load").await.unwrap();
    browser.wait_for("document.querySelector('#load').textContent === 'Stop load'").await.unwrap();
    // The event log shows the new run, without duplicates.
    assert_eq!(browser.value("document.querySelectorAll('#log li').length").await.unwrap(), 4);
    drop(again);
}

#[tokio::test]
async fn page_is_updated_four_times_a_second() {
    let fixture = Fixture::start().await;
    let browser = opened(&fixture).await;
    browser.click("#load").await.unwrap();
    let updates = "return new Promise(done => { let count = 0;
        new MutationObserver(() => { if (++count === 12) done(count); }).observe(document.querySelector('#sold'), { childList: true, characterData: true, subtree: true }); })";
    let began = std::time::Instant::now();
    assert_eq!(browser.run(updates).await.unwrap(), 12);
    let rate = 12.0 / began.elapsed().as_secs_f64();
    println!("{rate:.1} updates a second");
    if std::env::var_os("LOCK_LONG").is_some() {
        assert!(rate >= 4.0, "{rate:.1} updates a second");
    }
}
