//! Refusals of the bench's own routes as problem documents (RFC 9457), like those of the shop and of the lock layer.

use axum::{
    extract::rejection::JsonRejection,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::{error::Error, iter::successors};

/// A refusal: its status, the last segment of its type, and a remedy.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    word: &'static str,
    detail: String,
}

impl Problem {
    /// Creates a refusal.
    pub fn new(status: StatusCode, word: &'static str, detail: impl Into<String>) -> Self {
        Self { status, word, detail: detail.into() }
    }

    /// Creates the refusal of a request whose outcome is not known. The causes only appear in the log.
    pub fn unknown(word: &'static str, error: &(dyn Error + 'static)) -> Self {
        let causes: Vec<_> =
            successors(Some(error), |&error| error.source()).map(ToString::to_string).collect();
        tracing::error!(error = causes.join(": "), "request failed");
        let detail = "the outcome is not known: repeat the request with the same key";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, word, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, word, detail } = self;
        let document = json!({
            "type": format!("urn:problem-type:shop:{word}"),
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": detail,
        });
        (status, [(header::CONTENT_TYPE, "application/problem+json")], document.to_string()).into_response()
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), "bad-body", rejection.body_text())
    }
}
