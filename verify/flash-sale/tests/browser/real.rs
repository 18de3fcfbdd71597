//! Tests of the dashboard with real processes: `serve` with its servers, its balancer and a private
//! redis-server.

use crate::page::STATE_OF_SHOP_2;
use lock_browser::{Browser, ColorScheme, Device, Screen};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// A running `serve`. Dropping this stops it and everything it started.
struct Program {
    child: Child,
    url: String,
}

impl Program {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_flash-sale"))
            .args(["serve", "--lease", "2000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.strip_prefix("dashboard")?.trim().to_owned()));
        Self { child, url: url.expect("missing page address") }
    }

    fn stop(&mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

async fn choose(browser: &Browser, strategy: &str) {
    let choose = format!(
        "const s = document.querySelector('#strategy'); s.value = '{strategy}'; s.dispatchEvent(new Event('change'))"
    );
    browser.run(&choose).await.unwrap();
    let changed = format!("document.querySelector('#log').textContent.includes(' to {strategy}')");
    browser.wait_for(&changed).await.unwrap();
}

/// Returns a JavaScript expression for a number on the page.
fn number(selector: &str) -> String {
    format!("Number(document.querySelector('{selector}').textContent.replace(/\\D/g, ''))")
}

#[tokio::test(flavor = "multi_thread")]
async fn page_drives_real_servers() {
    let mut program = Program::start();
    let mut browser = Browser::start().await.unwrap();
    browser.set_screen(Screen { height: 1000, ..Screen::LAPTOP }).await.unwrap();
    browser.open(&program.url).await.unwrap();
    browser.wait_for("document.querySelector('#link').textContent === '● Live'").await.unwrap();
    assert_eq!(browser.value("document.querySelectorAll('#servers tbody tr').length").await.unwrap(), 3);
    browser
        .wait_for("document.querySelector('#scheduler').textContent.startsWith('leader shop-')")
        .await
        .unwrap();

    browser.click("#load").await.unwrap();
    browser.wait_for(&format!("{} > 50", number("#sold"))).await.unwrap();
    assert_eq!(browser.text("#lost").await.unwrap(), "0");
    choose(&browser, "none").await;
    browser.wait_for(&format!("{} > 0", number("#lost"))).await.unwrap();
    if std::env::var_os("PICTURES").is_some() {
        // Until the first products are empty, which takes about a minute.
        let were = "document.querySelector('#initial').textContent.endsWith(' twice')";
        while browser.value(were).await.unwrap() != true {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }
    pictures(&browser, "none").await;

    browser.click("[aria-label='Pause shop-2']").await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '‖ paused'")).await.unwrap();
    // The other servers may be waiting, because the server may hold SQLite's write lock.
    browser.click("[aria-label='Resume shop-2']").await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '● running'")).await.unwrap();
    let sold = browser.value(&number("#sold")).await.unwrap();
    browser.wait_for(&format!("{} > {sold} + 50", number("#sold"))).await.unwrap();

    choose(&browser, "fenced").await;
    browser.wait_for("document.querySelector('#lost-word').textContent.startsWith('✓ none')").await.unwrap();
    let (sold, pid) = (number("#sold"), "document.querySelector('[data-key=shop-2] .pid').textContent");
    let before = (browser.value(&sold).await.unwrap(), browser.value(pid).await.unwrap());
    browser.click("[aria-label='Kill shop-2']").await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '✕ dead'")).await.unwrap();
    pictures(&browser, "fenced").await;
    browser.click("[aria-label='Revive shop-2']").await.unwrap();
    browser.wait_for(&format!("{STATE_OF_SHOP_2} === '● running' && {pid} !== {}", before.1)).await.unwrap();
    browser.wait_for(&format!("{sold} > {} + 100", before.0)).await.unwrap();
    assert_eq!(browser.text("#lost").await.unwrap(), "0", "{}", browser.text("#log").await.unwrap());
    assert_eq!(browser.complaints().await.unwrap(), Vec::<String>::new());
    assert_eq!(program.stop(), Some(0));
    browser.wait_for("document.querySelector('#link').textContent === '○ Reconnecting'").await.unwrap();
}

/// Writes screenshots of the page to the directory in the environment variable `PICTURES`, if set.
async fn pictures(browser: &Browser, name: &str) {
    let Some(folder) = std::env::var_os("PICTURES").map(PathBuf::from) else { return };
    let phone = Screen { height: 2700, ..Screen::PHONE };
    let laptop = Screen { width: 1280, height: 1000, device: Device::Desktop };
    for (screen, scheme, kind) in [
        (phone, ColorScheme::Light, "phone"),
        (laptop, ColorScheme::Light, "light"),
        (laptop, ColorScheme::Dark, "dark"),
    ] {
        browser.set_screen(screen).await.unwrap();
        browser.set_color_scheme(scheme).await.unwrap();
        browser.screenshot(&folder.join(format!("{name}-{kind}.png"))).await.unwrap();
    }
}
