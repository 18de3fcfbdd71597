//! Error responses as problem documents (RFC 9457), like those of lock-tower.

use crate::{
    shop::{MetricsError, ShopError},
    store::StoreError,
    strategy::SellError,
};
use axum::{
    extract::rejection::{JsonRejection, PathRejection},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use std::error::Error;

/// An error response with a status, a machine-readable reason, and a remedy.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    word: &'static str,
    detail: String,
    more: Map<String, Value>,
    retry_after: Option<u32>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, word: &'static str, detail: impl Into<String>) -> Self {
        Self { status, word, detail: detail.into(), more: Map::new(), retry_after: None }
    }

    /// Adds a member to the document.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    /// Sets `Retry-After` to this many seconds.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Creates an error response whose causes appear only in the log.
    fn internal(status: StatusCode, word: &'static str, detail: &str, error: &dyn Error) -> Self {
        let mut causes = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            causes = format!("{causes}: {cause}");
            next = cause.source();
        }
        tracing::error!(error = causes, "request failed");
        Self::new(status, word, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, word, detail, mut more, retry_after } = self;
        more.insert("type".into(), format!("urn:problem-type:shop:{word}").into());
        more.insert("title".into(), status.canonical_reason().unwrap_or("Refused").into());
        more.insert("status".into(), status.as_u16().into());
        more.insert("reason".into(), word.into());
        more.insert("detail".into(), detail.into());
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (status, Value::from(more).to_string()).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
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
        let detail = "the database is not available: repeat the request with the same key";
        Self::internal(StatusCode::SERVICE_UNAVAILABLE, "database", detail, &error).retry_after(1)
    }
}

impl From<ShopError> for Problem {
    fn from(error: ShopError) -> Self {
        match error {
            ShopError::Store(error) => error.into(),
            error => {
                let detail = "the product's lock was not acquired: repeat the request";
                Self::internal(StatusCode::SERVICE_UNAVAILABLE, "lock", detail, &error).retry_after(1)
            }
        }
    }
}

impl From<SellError> for Problem {
    fn from(error: SellError) -> Self {
        match error {
            SellError::Store(StoreError::NeedsPostgres) | SellError::NeedsRedis => {
                Self::new(StatusCode::CONFLICT, "strategy-unavailable", error.to_string())
            }
            SellError::Store(error) => error.into(),
            error => {
                let detail = "the order could not be completed: repeat the request with the same key";
                Self::internal(StatusCode::SERVICE_UNAVAILABLE, "not-sold", detail, &error).retry_after(1)
            }
        }
    }
}

impl From<MetricsError> for Problem {
    fn from(error: MetricsError) -> Self {
        let detail = "the metrics could not be read";
        Self::internal(StatusCode::INTERNAL_SERVER_ERROR, "metrics", detail, &error)
    }
}
