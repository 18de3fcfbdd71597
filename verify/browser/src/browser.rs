//! A browser with one window: pages, scripts, keys, clicks, screenshots; requests and console messages of the pages; contrast,
//! width and layout shifts.

use crate::{
    BrowserError,
    session::{Session, unexpected},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// The pause between two checks of a condition.
const LOOK_EVERY: Duration = Duration::from_millis(30);
/// The time limit of a wait for a condition, which only ends what hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The field by which WebDriver identifies an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A headless Chromium with one window. Dropping it ends the process.
#[derive(Debug)]
pub struct Browser {
    session: Session,
    /// Requests and console messages so far.
    requests: Vec<String>,
    complaints: Vec<String>,
}

impl Browser {
    /// Starts chromedriver and a Chromium.
    ///
    /// # Errors
    /// [`BrowserError`] if one of them is missing or does not start.
    pub async fn start() -> Result<Self, BrowserError> {
        Ok(Self { session: Session::start().await?, requests: Vec::new(), complaints: Vec::new() })
    }

    /// Returns the folder of its profile, which is on the command line of every process of this Chromium.
    #[must_use]
    pub fn profile(&self) -> String {
        self.session.profile()
    }

    /// Opens the page at `url`, and returns once it is loaded.
    ///
    /// # Errors
    /// [`BrowserError`] if the page could not be loaded.
    pub async fn open(&self, url: &str) -> Result<(), BrowserError> {
        self.session.post("url", json!({ "url": url })).await.map(drop)
    }

    /// Runs the body of a function in the page and returns its result. Awaits promises.
    ///
    /// # Errors
    /// [`BrowserError`] if it throws.
    pub async fn run(&self, script: &str) -> Result<Value, BrowserError> {
        self.session.post("execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Returns the value of an expression in the page.
    ///
    /// # Errors
    /// [`BrowserError`] if it throws.
    pub async fn value(&self, expression: &str) -> Result<Value, BrowserError> {
        self.run(&format!("return {expression}")).await
    }

    /// Waits until an expression in the page has a value that counts as true.
    ///
    /// # Errors
    /// [`BrowserError::NotTrue`] after a minute.
    pub async fn wait_for(&self, expression: &str) -> Result<(), BrowserError> {
        let began = Instant::now();
        while self.value(&format!("!!({expression})")).await? != true {
            if began.elapsed() > PATIENCE {
                return Err(BrowserError::NotTrue {
                    condition: expression.into(),
                    seconds: PATIENCE.as_secs(),
                });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Returns the visible text of the element that a CSS selector matches.
    ///
    /// # Errors
    /// [`BrowserError`] if there is no such element.
    pub async fn text(&self, selector: &str) -> Result<String, BrowserError> {
        let element = self.element(selector).await?;
        let reply = self.session.get(&format!("element/{element}/text")).await?;
        reply.as_str().map(str::to_owned).ok_or_else(|| unexpected("text", &reply))
    }

    /// Clicks the element that a CSS selector matches, like a mouse.
    ///
    /// # Errors
    /// [`BrowserError`] if there is no such element, or if another one covers it.
    pub async fn click(&self, selector: &str) -> Result<(), BrowserError> {
        let element = self.element(selector).await?;
        self.session.post(&format!("element/{element}/click"), json!({})).await.map(drop)
    }

    async fn element(&self, selector: &str) -> Result<String, BrowserError> {
        let reply =
            self.session.post("element", json!({ "using": "css selector", "value": selector })).await?;
        reply[ELEMENT].as_str().map(str::to_owned).ok_or_else(|| unexpected("element", &reply))
    }

    /// Presses and releases a key. The focused element receives it.
    ///
    /// # Errors
    /// [`BrowserError`] if the browser is gone.
    pub async fn press(&self, key: Key) -> Result<(), BrowserError> {
        let stroke = |kind| json!({ "type": kind, "value": key.value() });
        let actions = [stroke("keyDown"), stroke("keyUp")];
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.session.post("actions", json!({ "actions": [keyboard] })).await.map(drop)
    }

    /// Sets the size of the screen.
    ///
    /// # Errors
    /// [`BrowserError`] if the browser is gone.
    pub async fn set_screen(&self, screen: Screen) -> Result<(), BrowserError> {
        self.devtools("Emulation.setDeviceMetricsOverride", screen.metrics()).await
    }

    /// Sets the colour scheme that pages should prefer.
    ///
    /// # Errors
    /// [`BrowserError`] if the browser is gone.
    pub async fn set_color_scheme(&self, scheme: ColorScheme) -> Result<(), BrowserError> {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme.value() });
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": [feature] })).await
    }

    async fn devtools(&self, method: &str, parameters: Value) -> Result<(), BrowserError> {
        self.session.post("goog/cdp/execute", json!({ "cmd": method, "params": parameters })).await.map(drop)
    }

    /// Writes a picture of the screen to `path`, as PNG.
    ///
    /// # Errors
    /// [`BrowserError`] if the browser is gone or the file cannot be written.
    pub async fn screenshot(&self, path: &Path) -> Result<(), BrowserError> {
        let reply = self.session.get("screenshot").await?;
        let picture = reply.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
        let picture = picture.ok_or_else(|| unexpected("screenshot", &Value::Null))?;
        Ok(std::fs::write(path, picture)?)
    }

    /// Returns the address of each request that the pages have made since the browser started, allowed or not.
    ///
    /// # Errors
    /// [`BrowserError`] if the browser is gone.
    pub async fn requests(&mut self) -> Result<Vec<String>, BrowserError> {
        for entry in log(&self.session, "performance").await? {
            let event: Value = entry["message"]
                .as_str()
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default();
            let event = &event["message"];
            if event["method"] == "Network.requestWillBeSent" {
                // The page of an empty window is Chromium's own.
                let address =
                    event["params"]["request"]["url"].as_str().filter(|url| !url.starts_with("chrome://"));
                self.requests.extend(address.map(str::to_owned));
            }
        }
        Ok(self.requests.clone())
    }

    /// Returns each warning and error in the console of the pages since the browser started, including violations of
    /// the pages' policies.
    ///
    /// # Errors
    /// [`BrowserError`] if the browser is gone.
    pub async fn complaints(&mut self) -> Result<Vec<String>, BrowserError> {
        for entry in log(&self.session, "browser").await? {
            if entry["level"] == "SEVERE" || entry["level"] == "WARNING" {
                self.complaints.extend(entry["message"].as_str().map(str::to_owned));
            }
        }
        Ok(self.complaints.clone())
    }

    /// Lists the visible texts whose contrast is below 4.5, with their contrast. Omits disabled controls.
    ///
    /// # Errors
    /// [`BrowserError`] if the page cannot be examined.
    pub async fn low_contrast(&self) -> Result<Vec<String>, BrowserError> {
        self.run(LOW_CONTRAST).await.map(texts)
    }

    /// Lists the visible elements that reach beyond the right edge of the window, and the width of the page if it is wider.
    ///
    /// # Errors
    /// [`BrowserError`] if the page cannot be examined.
    pub async fn off_screen(&self) -> Result<Vec<String>, BrowserError> {
        self.run(OFF_SCREEN).await.map(texts)
    }

    /// Lists the layout shifts since the page was opened that were not caused by input.
    ///
    /// # Errors
    /// [`BrowserError`] if the page cannot be examined.
    pub async fn layout_shifts(&self) -> Result<Vec<String>, BrowserError> {
        self.run(LAYOUT_SHIFTS).await.map(texts)
    }
}

/// The contrast that WCAG 2.2 (1.4.3, level AA) requires of text, against the nearest background that is not
/// transparent.
const LOW_CONTRAST: &str = "
    const luminance = colour => { const [r, g, b] = colour.match(/[0-9.]+/g).map(value => { value /= 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const behind = node => { const colour = node ? getComputedStyle(node).backgroundColor : 'rgb(255, 255, 255)';
        return colour === 'rgba(0, 0, 0, 0)' ? behind(node.parentElement) : colour; };
    return Array.from(document.querySelectorAll('body *'))
        .filter(node => node.checkVisibility() && node.childElementCount === 0 && node.textContent.trim())
        .filter(node => node.ariaDisabled !== 'true' && !node.closest('.unseen'))
        .map(node => { const [a, b] = [luminance(getComputedStyle(node).color), luminance(behind(node))].sort((a, b) => b - a);
            return [(a + 0.05) / (b + 0.05), node.textContent]; })
        .filter(([ratio]) => ratio < 4.5).map(([ratio, text]) => ratio.toFixed(2) + ' ' + text)";

/// Elements that are only for screen readers have the class `unseen`. A phone zooms out of a page that is too wide,
/// which raises `innerWidth`; `clientWidth` stays that of the screen.
const OFF_SCREEN: &str = "
    const width = document.documentElement.clientWidth;
    const outside = Array.from(document.querySelectorAll('body *'))
        .filter(node => node.checkVisibility() && !node.closest('.unseen')
            && node.getBoundingClientRect().right > width + 0.5)
        .map(node => node.outerHTML.slice(0, 80));
    const content = document.documentElement.scrollWidth;
    return content > width ? [...outside, content + ' px of content'] : outside";

const LAYOUT_SHIFTS: &str = "
    return new Promise(done => new PerformanceObserver(list => done(list.getEntries().map(entry =>
        Math.round(entry.startTime) + ' ms: ' + entry.value + ' by '
            + entry.sources.map(source => source.node?.id || source.node?.nodeName).join(', '))))
        .observe({ type: 'layout-shift', buffered: true }) || setTimeout(() => done([]), 500))";

fn texts(list: Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the entries of this log since the last call. Chromedriver returns each only once.
async fn log(session: &Session, kind: &str) -> Result<Vec<Value>, BrowserError> {
    let mut reply = session.post("se/log", json!({ "type": kind })).await?;
    Ok(reply.as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// The size of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// The kind of device.
    pub device: Device,
}

/// The kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// One device pixel per CSS pixel.
    Desktop,
    /// Two device pixels per CSS pixel, and the page's viewport setting is honoured.
    Phone,
}

impl Screen {
    /// A laptop.
    pub const LAPTOP: Self = Self { width: 1280, height: 860, device: Device::Desktop };
    /// A small phone.
    pub const PHONE: Self = Self { width: 360, height: 780, device: Device::Phone };

    fn metrics(self) -> Value {
        let phone = self.device == Device::Phone;
        json!({
            "width": self.width,
            "height": self.height,
            "deviceScaleFactor": if phone { 2 } else { 1 },
            "mobile": phone,
        })
    }
}

/// The preferred colour scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorScheme {
    /// Dark text on a light page.
    Light,
    /// Light text on a dark page.
    Dark,
}

impl ColorScheme {
    fn value(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Tab, which moves the focus.
    Tab,
    /// Enter.
    Enter,
    /// The space bar.
    Space,
    /// Arrow down.
    Down,
    /// End.
    End,
    /// A character.
    Char(char),
}

impl Key {
    /// Returns the code point that WebDriver assigns to the key.
    fn value(self) -> char {
        match self {
            Self::Tab => '\u{e004}',
            Self::Enter => '\u{e007}',
            Self::Space => ' ',
            Self::Down => '\u{e015}',
            Self::End => '\u{e010}',
            Self::Char(character) => character,
        }
    }
}
