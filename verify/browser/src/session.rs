//! A session: the process of chromedriver, which ends with it, and WebDriver commands with their replies as JSON over HTTP.

use crate::BrowserError;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// Number of attempts to start chromedriver.
const ATTEMPTS: usize = 5;

/// A session: one Chromium with one window.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client<HttpConnector, Full<Bytes>>,
    driver: Driver,
    id: String,
}

impl Session {
    /// Starts a Chromium.
    pub(crate) async fn start() -> Result<Self, BrowserError> {
        let driver = Driver::start().await?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut session = Self { client, driver, id: String::new() };
        let capabilities = session.capabilities();
        let reply = session.send(Method::POST, "session".into(), capabilities).await?;
        let Some(id) = reply["sessionId"].as_str() else { return Err(unexpected("session", &reply)) };
        session.id = id.into();
        Ok(session)
    }

    fn capabilities(&self) -> Value {
        let profile = format!("--user-data-dir={}", self.driver.profile());
        let mut arguments = vec![
            "--headless=new",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-dev-shm-usage", // containers have a small /dev/shm
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            &profile,
        ];
        if rustix::process::geteuid().is_root() {
            arguments.push("--no-sandbox"); // Chromium's sandbox refuses root
        }
        json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        }}})
    }

    pub(crate) fn profile(&self) -> String {
        self.driver.profile()
    }

    /// Sends a command with a body.
    pub(crate) async fn post(&self, command: &str, body: Value) -> Result<Value, BrowserError> {
        self.send(Method::POST, self.path(command), body).await
    }

    /// Sends a command without a body.
    pub(crate) async fn get(&self, command: &str) -> Result<Value, BrowserError> {
        self.send(Method::GET, self.path(command), Value::Null).await
    }

    fn path(&self, command: &str) -> String {
        format!("session/{}/{command}", self.id)
    }

    async fn send(&self, method: Method, path: String, body: Value) -> Result<Value, BrowserError> {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://127.0.0.1:{}/{path}", self.driver.port))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| BrowserError::BrokenReply(error.into()))?;
        let reply = self.client.request(request).await?;
        let bytes = reply
            .into_body()
            .collect()
            .await
            .map_err(|error| BrowserError::BrokenReply(error.into()))?
            .to_bytes();
        let mut reply: Value =
            serde_json::from_slice(&bytes).map_err(|error| BrowserError::BrokenReply(error.into()))?;
        let value = reply["value"].take();
        match value["error"].as_str() {
            Some(error) => Err(BrowserError::Refused {
                command: path,
                error: error.into(),
                message: value["message"]
                    .as_str()
                    .and_then(|message| message.lines().next())
                    .unwrap_or("")
                    .into(),
            }),
            None => Ok(value),
        }
    }
}

pub(crate) fn unexpected(command: &str, reply: &Value) -> BrowserError {
    BrowserError::Unexpected { command: command.into(), reply: reply.to_string() }
}

/// A running chromedriver. Dropping it ends it, and every Chromium that it started.
#[derive(Debug)]
struct Driver {
    port: u16,
    group: Option<Pid>,
    _process: Child,
    /// Profiles and temporary files of Chromium.
    home: TempDir,
}

impl Driver {
    /// Starts chromedriver on a free port. It takes a port of IPv6 first, which another process may have taken for IPv4;
    /// it then ends, and is started again.
    async fn start() -> Result<Self, BrowserError> {
        for _ in 1..ATTEMPTS {
            match Self::start_once().await {
                Err(BrowserError::NoPort(_)) => {}
                started => return started,
            }
        }
        Self::start_once().await
    }

    async fn start_once() -> Result<Self, BrowserError> {
        let home = tempfile::tempdir()?;
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| BrowserError::Start { program: "chromedriver", source })?;
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (mut printed, mut port) = (String::new(), None);
        if let Some(stdout) = process.stdout.take() {
            let mut lines = BufReader::new(stdout).lines();
            while let Some(line) = lines.next_line().await? {
                // "ChromeDriver was started successfully on port 34567."
                port = line
                    .rsplit_once("successfully on port ")
                    .and_then(|(_, port)| port.trim_end_matches('.').parse().ok());
                printed.push_str(&line);
                if port.is_some() {
                    // Keep reading its output, so that it never blocks on it.
                    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    break;
                }
            }
        }
        let driver = Self { port: port.unwrap_or(0), group, _process: process, home };
        if port.is_some() { Ok(driver) } else { Err(BrowserError::NoPort(printed)) }
    }

    /// Returns the folder for a profile.
    fn profile(&self) -> String {
        self.home.path().join("profile").display().to_string()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
