//! Refusals as problem documents (RFC 9457), like those of the lock layer.

use crate::{domain::Invalid, store::StoreError};
use axum::{
    body::{Body, Bytes},
    extract::rejection::{JsonRejection, PathRejection},
    http::{HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};
use serde_json::json;
use std::{error::Error, iter};

/// Returns an error with its causes.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let causes = iter::successors(Some(error), |&cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A refusal.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    word: &'static str,
    detail: String,
    token: Option<i64>,
    retry: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, word: &'static str, detail: impl Into<String>) -> Self {
        Self { status, word, detail: detail.into(), token: None, retry: false }
    }

    /// Creates the refusal of a request that may be repeated. Its cause is only logged.
    pub(crate) fn unavailable(word: &'static str, error: &(dyn Error + 'static)) -> Self {
        tracing::error!(error = causes(error), "request failed");
        let detail = "the outcome is not known: repeat the request with the same key";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, word, detail).retry()
    }

    /// Asks the customer to repeat the request.
    pub(crate) fn retry(self) -> Self {
        Self { retry: true, ..self }
    }

    /// Adds the fencing token of the holder.
    pub(crate) fn token(self, token: i64) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Returns the response, with its whole body, so that it can be recorded.
    pub(crate) fn answer(self) -> Response<Bytes> {
        let Self { status, word, detail, token, retry } = self;
        let mut document = json!({
            "type": format!("urn:problem-type:shop:{word}"),
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": detail,
        });
        if let Some(token) = token {
            document["token"] = token.into();
        }
        let mut response = Response::new(Bytes::from(document.to_string()));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.answer().map(Body::from)
    }
}

impl From<Invalid> for Problem {
    fn from(error: Invalid) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", error.to_string())
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), "bad-body", rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(rejection.status(), "bad-path", rejection.body_text())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::unavailable("database", &error)
    }
}
