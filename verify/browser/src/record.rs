//! The requests and console messages of the pages. They are kept here because Chromedriver returns each only once.

use crate::{BrowserError, session::Session};
use serde_json::{Value, json};

#[derive(Debug, Default)]
pub(crate) struct Record {
    requests: Vec<String>,
    complaints: Vec<String>,
}

impl Record {
    pub(crate) async fn requests(&mut self, session: &Session) -> Result<Vec<String>, BrowserError> {
        for entry in entries(session, "performance").await? {
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

    pub(crate) async fn complaints(&mut self, session: &Session) -> Result<Vec<String>, BrowserError> {
        for entry in entries(session, "browser").await? {
            if entry["level"] == "SEVERE" || entry["level"] == "WARNING" {
                self.complaints.extend(entry["message"].as_str().map(str::to_owned));
            }
        }
        Ok(self.complaints.clone())
    }
}

async fn entries(session: &Session, kind: &str) -> Result<Vec<Value>, BrowserError> {
    let mut reply = session.post("se/log", json!({ "type": kind })).await?;
    Ok(reply.as_array_mut().map(std::mem::take).unwrap_or_default())
}
