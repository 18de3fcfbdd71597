//! A browser with one window: pages, scripts, clicks, screenshots.

use crate::{
    BrowserError, Key,
    record::Record,
    screen::{ColorScheme, Screen},
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
    record: Record,
}

impl Browser {
    /// Starts chromedriver and a Chromium.
    ///
    /// # Errors
    /// [`BrowserError`] if one of them is missing or does not start.
    pub async fn start() -> Result<Self, BrowserError> {
        Ok(Self { session: Session::start().await?, record: Record::default() })
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
        self.record.requests(&self.session).await
    }

    /// Returns each warning and error in the console of the pages since the browser started, including violations of
    /// the pages' policies.
    ///
    /// # Errors
    /// [`BrowserError`] if the browser is gone.
    pub async fn complaints(&mut self) -> Result<Vec<String>, BrowserError> {
        self.record.complaints(&self.session).await
    }
}
