//! Tests of the browser with a page that the test serves itself.

// Tests may unwrap.
#![allow(clippy::unwrap_used)]

use lock_browser::{Browser, ColorScheme, Key, Screen};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const PAGE: &str = "<!doctype html><title>page</title><meta name=viewport content='width=device-width'>\
    <style>p { color: black } @media (prefers-color-scheme: dark) { p { color: white } }</style>\
    <button onclick=\"document.querySelector('p').textContent = 'clicked'\">b</button><p>new</p>\
    <script>fetch('http://elsewhere.invalid/x').catch(() => console.error('no answer'))</script>";

/// Answers every request on a free port with the page. Returns the address.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = connection.read(&mut [0; 4096]).await;
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    PAGE.len()
                );
                let _ = connection.write_all(format!("{head}{PAGE}").as_bytes()).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn page_is_clicked_typed_and_measured() {
    let address = serve().await;
    let browser = Browser::start().await.unwrap();
    browser.open(&address).await.unwrap();
    assert_eq!(browser.text("p").await.unwrap(), "new");

    browser.click("button").await.unwrap();
    browser.wait_for("document.querySelector('p').textContent === 'clicked'").await.unwrap();
    browser.run("document.querySelector('p').textContent = 'again'").await.unwrap();
    // The clicked button has the focus.
    browser.press(Key::Enter).await.unwrap();
    browser.wait_for("document.querySelector('p').textContent === 'clicked'").await.unwrap();

    browser.set_screen(Screen::PHONE).await.unwrap();
    assert_eq!(browser.value("innerWidth").await.unwrap(), 360);
    let colour = "getComputedStyle(document.querySelector('p')).color";
    browser.set_color_scheme(ColorScheme::Light).await.unwrap();
    assert_eq!(browser.value(colour).await.unwrap(), "rgb(0, 0, 0)");
    browser.set_color_scheme(ColorScheme::Dark).await.unwrap();
    assert_eq!(browser.value(colour).await.unwrap(), "rgb(255, 255, 255)");

    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("page.png");
    browser.screenshot(&picture).await.unwrap();
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
}

#[tokio::test]
async fn requests_to_other_hosts_and_complaints_are_recorded() {
    let address = serve().await;
    let mut browser = Browser::start().await.unwrap();
    browser.open(&address).await.unwrap();
    while !browser.complaints().await.unwrap().iter().any(|line| line.contains("no answer")) {}
    let requests = browser.requests().await.unwrap();
    assert!(
        requests.contains(&address) && requests.contains(&"http://elsewhere.invalid/x".to_owned()),
        "{requests:?}"
    );
}

#[tokio::test]
async fn defects_of_the_appearance_are_found() {
    let browser = Browser::start().await.unwrap();
    browser.open(&serve().await).await.unwrap();
    browser.set_screen(Screen::PHONE).await.unwrap();
    assert_eq!(browser.low_contrast().await.unwrap(), Vec::<String>::new());
    assert_eq!(browser.off_screen().await.unwrap(), Vec::<String>::new());
    assert_eq!(browser.layout_shifts().await.unwrap(), Vec::<String>::new());

    browser.run("document.querySelector('p').style.color = '#ccc'").await.unwrap();
    assert_eq!(browser.low_contrast().await.unwrap(), ["1.61 new"]);
    // No input precedes the shift, so it counts as unexpected.
    browser.run("document.querySelector('p').style = 'width: 900px; margin-top: 300px'").await.unwrap();
    assert!(!browser.off_screen().await.unwrap().is_empty());
    assert_eq!(browser.layout_shifts().await.unwrap().len(), 1);
}

#[tokio::test]
async fn dropped_browser_leaves_no_process() {
    let address = serve().await;
    let browser = Browser::start().await.unwrap();
    browser.open(&address).await.unwrap();
    let profile = browser.profile();
    assert!(!processes_naming(&profile).is_empty());
    drop(browser);
    while !processes_naming(&profile).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Returns the ids of the processes with `text` on their command line.
fn processes_naming(text: &str) -> Vec<String> {
    let all =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let names = |id: &String| {
        std::fs::read(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
    };
    all.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())).filter(names).collect()
}
